// What comes next: from logits in falling order to the chances that temperature, top-k and top-p leave.
import { el, t } from "./kit.js";
import { shown } from "./explore_map.js";

const [FEWEST, ROWS] = [5, 12];

// logits, the largest first -> {own, left}: the model's own chances, and what is drawn from.
export function chances(logits, { temperature, top_k: topK, top_p: topP }) {
  const softmax = (scale) => {
    const made = Float64Array.from(logits, (logit) => Math.exp((logit - logits[0]) * scale));
    const sum = made.reduce((total, one) => total + one, 0);
    return made.map((one) => one / sum);
  };
  const own = softmax(1);
  if (temperature === 0) return { own, left: own.map((_one, place) => Number(place === 0)) };
  const left = softmax(1 / temperature);
  const of = (count) => left.subarray(0, count).reduce((total, one) => total + one, 0);
  if (topK) left.fill(0, topK);
  let kept = 0;
  const whole = of(left.length);
  for (let sum = 0; kept < left.length && left[kept] > 0 && (sum < topP * whole || kept === 0); kept++) sum += left[kept];
  if (topP < 1) left.fill(0, kept);
  const rest = of(left.length);
  return { own, left: left.map((one) => one / rest) };
}

export const percent = (part) => (part >= 0.9995 ? "100 %" : part >= 0.0995 ? `${Math.round(100 * part)} %` : part >= 0.0005 ? `${(100 * part).toFixed(1)} %` : "0 %");

// The panel: sliders, a bar for each likely token, and what each layer would have said.
export class Next {
  constructor(root, taken, changed) {
    this.taken = taken;
    this.drawing = { temperature: 0.8, top_k: 20, top_p: 1 };
    this.rows = el("div", { class: "look-bars" });
    this.layers = el("ol", { class: "look-layers", start: 0 });
    root.append(
      el("div", {}, el("h2", {}, t("Next token")),
        this.#slider("temperature", t("temperature"), { min: 0, max: 2, step: 0.05 }, (value) => value.toFixed(2), changed),
        this.#slider("top_k", "top-k", { min: 0, max: 50, step: 1 }, (value) => (value ? String(value) : t("all")), changed),
        this.#slider("top_p", "top-p", { min: 0.05, max: 1, step: 0.05 }, (value) => value.toFixed(2), changed),
        this.rows,
        el("p", { class: "look-quiet" }, t("Outline: the model's own probability. Filled: after temperature, top-k and top-p. Click a token to append it."))),
      el("div", {}, el("h2", {}, t("The guess after each layer")), this.layers));
  }

  #slider(name, label, range, said, changed) {
    const value = el("output", {}, said(this.drawing[name]));
    const input = el("input", { type: "range", id: `look-${name}`, ...range, value: this.drawing[name] });
    input.addEventListener("input", () => {
      this.drawing[name] = Number(input.value);
      value.textContent = said(this.drawing[name]);
      changed();
    });
    return el("p", { class: "look-slider" }, el("label", { for: input.id }, label), input, value);
  }

  // looks: one or two of {next, ids, logits, guesses, name}.
  draw(looks) {
    const [first, second] = looks.map((look) => ({ ...look, ...chances(look.logits, this.drawing) }));
    const worth = (place) => place < FEWEST || Math.max(first.own[place], first.left[place]) >= 0.0005;
    const places = [...Array(Math.min(ROWS, first.next.length)).keys()].filter(worth);
    const rows = places.map((place) => ({ id: first.ids[place], text: first.next[place] }));
    if (second && !rows.some((row) => row.id === second.ids[0])) rows.push({ id: second.ids[0], text: second.next[0] });
    const most = Math.max(...[first, second].filter(Boolean).flatMap((look) => [look.own[0], look.left[0]]));
    const bars = (look, id) => {
      const place = look.ids.indexOf(id);
      const [own, left] = place < 0 ? [0, 0] : [look.own[place], look.left[place]];
      const bar = el("span", { class: "look-bar" }, el("i", { class: "own" }), el("i", { class: "left" }));
      bar.children[0].style.width = `${(100 * own) / most}%`;
      bar.children[1].style.width = `${(100 * left) / most}%`;
      return [bar, el("span", { class: "look-figure" }, percent(left))];
    };
    this.rows.replaceChildren(...rows.map(({ id, text }) => {
      const pair = [first, second].filter(Boolean).map((look, which) => el("span", { class: which ? "look-b" : "look-a" }, ...bars(look, id)));
      return el("button", { type: "button", class: "look-row", onclick: () => this.taken(text) }, el("span", { class: "look-name" }, shown(text)), el("span", { class: "look-pair" }, ...pair));
    }));
    this.layers.replaceChildren(...first.guesses.map(([text, chance], layer) => {
      const others = second ? [" · ", el("span", { class: "look-b" }, `${shown(second.guesses[layer][0])} ${percent(second.guesses[layer][1])}`)] : [];
      return el("li", {}, el("span", {}, `${shown(text)} ${percent(chance)}`), ...others);
    }));
  }
}
