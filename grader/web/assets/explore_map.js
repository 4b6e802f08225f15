// What attends to what: maps on a canvas, small and large, and arcs between tokens.

const halves = Float32Array.from({ length: 65536 }, (_none, bits) => {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction / 2 ** 24;
  return exponent === 31 ? NaN : bits >> 15 ? -size : size;
});

// float16 in bytes -> Float32Array
export const decoded = (buffer) => Float32Array.from(new Uint16Array(buffer), (bits) => halves[bits]);

// A token with what is invisible written out.
export const shown = (token) => token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";

const CLOSEST = 8; // tokens a side

const colours = (element) => {
  const style = getComputedStyle(element);
  const [ink, quiet, line, mark, weight] = ["ink", "quiet", "line", "mark", "weight"].map((name) => style.getPropertyValue(`--look-${name}`));
  return { ink, quiet, line, mark, weight: weight.match(/[\d.]+/g).slice(0, 3).map(Number), font: style.fontFamily };
};

// A picture of a square of weights, a pixel for each: transparent at 0, the colour of weights at 1.
function image(side, value, weight) {
  const made = new OffscreenCanvas(side, side);
  const pen = made.getContext("2d");
  const pixels = pen.createImageData(side, side);
  for (let place = 0; place < side * side; place++) {
    pixels.data.set(weight, 4 * place);
    pixels.data[4 * place + 3] = 255 * Math.min(1, value(Math.floor(place / side), place % side)) ** 0.75;
  }
  pen.putImageData(pixels, 0, 0);
  return made;
}

// The small map of a head: bytes, side × side.
export function thumb(canvas, bytes, side) {
  canvas.width = canvas.height = 96;
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image(side, (row, column) => bytes[row * side + column] / 255, colours(canvas).weight), 0, 0, 96, 96);
}

// The large map of a head, or the part of it that `zoom` names; it keeps where its cells are, for the pointer.
export class HeadMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.zoom = { first: 0, count: 0 };
  }

  // weights: n × n; other: those that it is compared with; at: [query, key] to mark.
  draw(weights, tokens, other, at) {
    const { canvas } = this;
    const n = tokens.length;
    const isMoved = this.tokens?.slice(0, Math.max(this.top, this.left) + this.count).some((token, place) => token !== tokens[place]);
    if (isMoved) this.zoom = { first: 0, count: 0 }; // another text is seen whole; one that goes on, where one looked
    this.tokens = tokens;
    const width = canvas.clientWidth;
    if (!width) return;
    const { zoom } = this;
    const ratio = devicePixelRatio || 1;
    const count = zoom.count ? Math.min(zoom.count, n) : n;
    const [top, left] = [0, 1].map((axis) => Math.max(0, Math.min(zoom.first ? Math.round(zoom.first[axis]) : 0, n - count)));
    const roomy = width / count > 8.5;
    const margin = roomy ? Math.min(84, width / 4) : 0;
    const cell = (width - margin - 1) / count;
    canvas.width = canvas.height = Math.round(width * ratio);
    canvas.style.height = `${width}px`;
    Object.assign(this, { margin, cell, count, top, left, n, isWhole: count === n, isClosest: count <= CLOSEST });
    const pen = canvas.getContext("2d");
    const colour = colours(canvas);
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = cell < 1;
    pen.imageSmoothingQuality = "high";
    const value = (row, column) => weights[(top + row) * n + left + column];
    const seen = [weights.buffer, weights.byteOffset, top, left, count, String(colour.weight)];
    if (!this.seen?.every((one, place) => one === seen[place])) Object.assign(this, { seen, image: image(count, value, colour.weight) });
    pen.drawImage(this.image, margin, margin, cell * count, cell * count);
    pen.strokeStyle = colour.line;
    pen.strokeRect(margin + 0.5, margin + 0.5, cell * count, cell * count);
    if (other && cell > 3) this.#outline(pen, colour, value, (row, column) => other[(top + row) * n + left + column]);
    if (roomy) this.#labels(pen, colour, tokens, at);
    if (at) this.#mark(pen, colour, at);
  }

  #outline(pen, colour, value, before) {
    pen.strokeStyle = colour.mark;
    pen.lineWidth = 1.5;
    for (let place = 0; place < this.count ** 2; place++) {
      const [row, column] = [Math.floor(place / this.count), place % this.count];
      if (Math.abs(value(row, column) - before(row, column)) > 0.1)
        pen.strokeRect(this.margin + column * this.cell + 1, this.margin + row * this.cell + 1, this.cell - 1.5, this.cell - 1.5);
    }
  }

  #labels(pen, colour, tokens, at) {
    const size = Math.max(9, Math.min(12, this.cell * 0.85));
    const most = Math.floor(this.margin / (size * 0.56));
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const label = (index, isHere, x, y) => {
      const text = shown(tokens[index]);
      pen.font = `${isHere ? "600 " : ""}${size}px ${colour.font}`;
      pen.fillStyle = isHere ? colour.ink : colour.quiet;
      pen.fillText(text.length > most ? `${text.slice(0, most - 1)}…` : text, x, y);
    };
    for (let place = 0; place < this.count; place++) {
      const middle = this.margin + (place + 0.5) * this.cell;
      label(this.top + place, this.top + place === at?.[0], this.margin - 5, middle);
      pen.save();
      pen.translate(middle, this.margin - 5);
      pen.rotate(Math.PI / 2);
      label(this.left + place, this.left + place === at?.[1], 0, 0);
      pen.restore();
    }
  }

  #mark(pen, colour, [query, key]) {
    const [row, column] = [query - this.top, key - this.left];
    const y = this.margin + row * this.cell;
    pen.strokeStyle = colour.ink;
    pen.lineWidth = 1;
    if (row >= 0 && row < this.count) pen.strokeRect(this.margin, y, this.cell * this.count, this.cell);
    pen.lineWidth = 2;
    if (key != null && column >= 0) pen.strokeRect(this.margin + column * this.cell, y, Math.max(3, this.cell), Math.max(3, this.cell));
  }

  // Which query and key are under the pointer; null beside the map.
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [row, column] = [event.clientY - box.top, event.clientX - box.left].map((place) => Math.floor((place - this.margin) / this.cell));
    return row < 0 || column < 0 || row >= this.count || column >= this.count ? null : [this.top + row, this.left + column];
  }

  // Moves what is seen by so many pixels.
  pan(across, down) {
    if (!this.zoom.count) return;
    this.zoom.first = [down, across].map((by, axis) => Math.max(0, Math.min(this.zoom.first[axis] - by / this.cell, this.n - this.count)));
  }

  // Closer (or, with a factor above 1, farther away), around a cell.
  scale(factor, [query, key]) {
    const count = Math.round(Math.max(CLOSEST, Math.min(this.n, this.count * factor)));
    this.zoom = count >= this.n ? { first: 0, count: 0 } : { count, first: [query, key].map((place) => Math.max(0, Math.min(place - (count >> 1), this.n - count))) };
  }

  // Moves what is seen so that a cell is in it.
  follow([query, key]) {
    if (!this.zoom.count) return;
    const into = (first, place) => Math.max(place - this.count + 1, Math.min(first, place));
    this.zoom.first = [into(this.top, query), into(this.left, key)];
  }
}

// Arcs from a token to those that it attends to, drawn over the line of tokens.
export function arcs(svg, chips, query, rows) {
  const box = svg.getBoundingClientRect();
  const from = chips[query]?.getBoundingClientRect();
  svg.replaceChildren();
  if (!from) return;
  rows.forEach(([weights, name], which) => {
    chips.forEach((chip, key) => {
      if (weights[key] < 0.04 || key === query) return;
      const to = chip.getBoundingClientRect();
      const [x1, x2] = [from, to].map((one) => one.left - box.left + one.width / 2 + 3 * which);
      const [y1, y2] = [from.top - box.top, to.top - box.top];
      const up = Math.min(26, 8 + Math.abs(x1 - x2) / 12);
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${x1} ${y1}C${x1} ${y1 - up} ${x2} ${y2 - up} ${x2} ${y2}`);
      path.setAttribute("class", name);
      path.style.strokeWidth = 1 + 3 * weights[key];
      path.style.opacity = 0.3 + 0.7 * weights[key];
      svg.append(path);
    });
  });
}
