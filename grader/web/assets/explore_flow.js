// The path of one token through one layer: a box for each step, with its real numbers, and what adds to the next token.
import { el, opener, t, whenColoursChange } from "./kit.js";
import { shown } from "./explore_map.js";

const NAMES = {
  token: t("Token"), position: t("Position"), stream: t("Residual stream"), norm: t("Layer norm"), query: t("Query"), key: t("Key"), value: t("Value"),
  scores: t("Scores"), mask: t("Mask"), weights: t("Weights"), context: t("Context"), merged: t("Heads merged"), attention: t("Attention's output"),
  added: t("Stream plus attention"), "norm again": t("Layer norm"), MLP: t("MLP"), output: t("Stream after the layer"), "last norm": t("Last norm"), logits: t("Logits"),
};
// Rows from top to bottom; what joins the stream again is marked.
const ROWS = [["token", "position"], ["stream"], ["norm"], ["query", "key", "value"], ["scores", "mask", "weights"], ["context"],
  ["merged", "attention"], ["added"], ["norm again", "MLP"], ["output"], ["last norm", "logits"]];
const STREAM = new Set(["stream", "added", "output"]);
const SUMMED = new Set(["scores", "weights", "context"]); // of their numbers, one is pressed to see its sum
const WHOSE = { yours: t("your code"), reference: t("the reference's"), kit: t("the kit's") };

const plain = (number) => number.toFixed(2).replace("-", "−");
const signed = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(2)}`;

export class Flow {
  // chosen: hears which layer and head are clicked; summed: asked for the sum behind a number of a box
  constructor(root, chosen, summed) {
    Object.assign(this, { chosen, summed });
    this.title = el("h2", {});
    this.boxes = el("div", { class: "flow-boxes" });
    this.partsTitle = el("h3", {});
    this.parts = el("div", { class: "flow-parts" });
    root.append(this.title, el("p", { class: "look-quiet" }, t("Each box is a step: its name leads to the lesson, its number to your file. Blue is above 0, orange below."), " ", t("Press a number of the scores, the weights or the context to see its sum; arrow keys move.")),
      el("div", { class: "flow" }, this.boxes, el("div", {}, this.partsTitle, this.parts)));
    whenColoursChange(() => this.strips?.forEach((paint) => paint()));
  }

  draw({ boxes, token, parts }, at) {
    Object.assign(this, { at, strips: [] });
    const byName = Object.fromEntries(boxes.map((box) => [box.name, box]));
    this.title.textContent = t("The path of {token} through layer {layer}, head {head}", { ...at, token: shown(at.token) });
    this.boxes.replaceChildren(...ROWS.map((names) =>
      el("div", { class: `flow-row${STREAM.has(names[0]) ? " flow-stream" : ""}` }, ...names.map((name) => this.#box(byName[name])))));
    this.partsTitle.textContent = t("What adds to {token}: its logit is {sum} above the mean of all tokens", { token: shown(token), sum: parts.sum.toFixed(2) });
    this.#drawParts(parts);
  }

  #box({ name, step, whose, shape, values, of_tokens: ofTokens }) {
    const isSummed = SUMMED.has(name);
    const canvas = el("canvas", isSummed ? { tabindex: 0, role: "img", "aria-label": `${NAMES[name]}: ${values.length}` } : { "aria-hidden": "true" });
    if (isSummed) this.#pressed(canvas, name, values.length, ofTokens);
    this.strips.push(() => strip(canvas, values, getComputedStyle(this.boxes)));
    this.strips.at(-1)();
    const length = shape[0] > values.length ? t("first {count} of {all}", { count: values.length, all: shape[0] }) : String(shape[0]);
    const most = ofTokens && values.indexOf(Math.max(...values));
    const told = ofTokens && name === "weights" ? `${shown(this.at.tokens[most])} ${values[most].toFixed(2)}` : values.slice(0, 2).map(plain).join(" ");
    return el("div", { class: `flow-box whose-${whose}`, title: values.slice(0, 8).map((one) => one.toFixed(3)).join("  ") },
      el("span", { class: "flow-top" }, el("a", { class: "flow-name", href: `/step/${step}` }, NAMES[name]),
        el("span", { class: "look-quiet" }, opener(step, t("Step {number}", { number: step })), ` · ${WHOSE[whose]}`)),
      canvas, el("span", { class: "look-quiet" }, `${told} … (${length})`));
  }

  // A number of a strip, pressed: its sum below the boxes of the row.
  #pressed(canvas, name, count, ofTokens) {
    let at = -1;
    const press = (number) => {
      at = Math.max(0, Math.min(number, count - 1));
      const said = el("p", { class: "flow-sum", role: "status", dir: "ltr" });
      this.boxes.querySelector(".flow-sum")?.remove();
      canvas.closest(".flow-row").append(said);
      this.summed(name, at, said, `${NAMES[name]}, ${ofTokens ? shown(this.at.tokens[at]) : at}`);
    };
    canvas.addEventListener("click", ({ offsetX }) => press(Math.floor((offsetX / canvas.clientWidth) * count)));
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, Enter: 0 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      press(at + by);
    });
  }

  #drawParts({ embedding, layers, last, agrees }) {
    const most = Math.max(...[embedding, last, ...layers.flatMap(({ heads, bias, mlp }) => [...heads, bias, mlp])].map(Math.abs), 1e-6);
    const bar = (label, amount, onclick, isHere) => {
      const mark = el("i", { class: amount < 0 ? "minus" : "plus" });
      mark.style.width = `${(50 * Math.abs(amount)) / most}%`;
      return el(onclick ? "button" : "div", { class: "flow-part", type: onclick && "button", onclick, "aria-pressed": onclick && String(isHere) },
        el("span", {}, label), el("span", { class: "flow-bar" }, mark), el("span", { class: "look-figure" }, signed(amount)));
    };
    const groups = layers.map(({ heads, bias, mlp }, layer) => el("div", { role: "group", "aria-label": t("layer {layer}", { layer }) },
      el("h4", {}, t("layer {layer}", { layer })),
      ...heads.map((amount, head) => bar(t("head {head}", { head }), amount, () => this.chosen(layer, head), layer === this.at.layer && head === this.at.head)),
      bar("MLP", mlp), bar(t("biases"), bias)));
    this.parts.replaceChildren(bar(t("Embedding"), embedding), ...groups, bar(t("Last norm"), last),
      el("p", { class: "look-quiet" }, t("Clicking a head shows its path."), !agrees && ` ${t("The parts do not add up to the logit here, so take them as an estimate.")}`));
  }
}

// Numbers as a strip of cells: the page at 0, one colour above, another one below.
function strip(canvas, values, style) {
  const most = Math.max(...values.map(Math.abs), 1e-9);
  canvas.width = 4 * values.length;
  canvas.height = 16;
  const pen = canvas.getContext("2d");
  values.forEach((value, index) => {
    pen.globalAlpha = Math.min(1, Math.abs(value) / most) ** 0.75;
    pen.fillStyle = style.getPropertyValue(value < 0 ? "--look-mark" : "--look-weight");
    pen.fillRect(4 * index, 0, 4, 16);
  });
}
