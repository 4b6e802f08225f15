// Look inside your own GPT: a text, what each head attends to, what is expected next; and both again with one thing changed.
import { el, t, whenColoursChange } from "./kit.js";
import { arcs, decoded, HeadMap, shown, thumb } from "./explore_map.js";
import { Flow } from "./explore_flow.js";
import { keep } from "./explore_keep.js";
import { Next, percent } from "./explore_next.js";

const [TYPING, FLOWING, WRITTEN, DROPPED] = [40, 30, 60, 0.2]; // milliseconds after the last key or move; tokens; a part of the weights

// What is said while one waits, by what the process does.
const STAGES = {
  start: (values) => t("Starting the process in which your GPT runs … {seconds} s", values),
  code: (values) => t("Reading your steps 1 to 12 … {seconds} s", values),
  weights: (values) => t("Reading the parameters … {seconds} s", values),
  compute: (values) => t("Computing: {percent}", values),
};

export const mount = (root) => new Explore(root);

async function post(what, question, signal) {
  const answer = await fetch(`/data/explore/${what}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question), signal,
  });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? t("The session has ended. To continue, type: make course"));
  return answer;
}

// An answer: JSON, and bytes after it.
async function ask(what, question, signal) {
  const answer = await post(what, question, signal);
  const bytes = await answer.arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.slice(4, 4 + length)));
  if (header.error) throw new Error(header.error);
  return { ...header, body: bytes.slice(4 + length) };
}

// Where an arrow key leads in a grid of so many columns; 0 for any other key.
const step = (event, columns) => ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns })[event.key] ?? 0;
const signed = (part) => (Math.abs(part) < 0.0005 ? "0 %" : `${part < 0 ? "−" : "+"}${percent(Math.abs(part))}`);

// Whether a text is another one, so that the token chosen in it means nothing any more: the tokens up to the chosen one
// have changed, or less than half of the longer text is left.
function isReplaced(before, after, chosen) {
  const most = Math.min(before.length, after.length);
  let [first, last] = [0, 0];
  while (first < most && before[first] === after[first]) first++;
  while (last < most - first && before.at(-1 - last) === after.at(-1 - last)) last++;
  return first <= chosen || first + last < Math.max(before.length, after.length) / 2;
}

class Explore {
  constructor(root) {
    // chosen: the head that it began with; cell: [query, key] that is looked at; changes: what each switch changes in a view
    Object.assign(this, { root, layer: 0, head: 0, chosen: null, cell: null, changes: {}, looks: [], writing: null });
    this.#build();
    this.#begin();
  }

  // --- what stands on the page ---
  #build() {
    this.weights = el("select", { id: "look-weights", onchange: () => { this.chosen = this.asked = null; this.#refresh(this.#model().samples[0]); } });
    this.text = el("textarea", { id: "look-text", rows: 2, maxlength: 16000, spellcheck: "false", oninput: () => this.#soon("typing", TYPING, () => this.#refresh()) });
    this.note = el("p", { class: "look-note", role: "status" });
    this.offers = el("details", { class: "look-offers" });
    this.why = el("p", { class: "look-quiet", hidden: true }, t("Without positions the model still knows a little about order: under the causal mask the first token sees one key and the last one all of them."), " ",
      el("a", { href: "/lab/positions" }, t("The lab on positions measures how much.")));
    this.whose = el("details", { class: "look-whose" });
    this.write = el("button", { type: "button", class: "primary", onclick: () => this.#write() }, t("Generate"));
    this.written = el("div", { class: "look-written", "aria-live": "off" });
    this.arcs = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.arcs.setAttribute("aria-hidden", "true");
    this.line = el("div", { class: "look-tokens", tabindex: 0, role: "listbox", "aria-label": t("Tokens"), onkeydown: (event) => this.#moveToken(event) });
    this.told = el("p", { class: "look-told", "aria-live": "polite" });
    this.whatIf = el("div", { class: "look-changes", role: "group", "aria-label": t("What if") });
    this.heads = el("div", { class: "look-heads", role: "group", "aria-label": t("Heads") });
    this.maps = el("div", { class: "look-maps" });
    this.sum = el("p", { class: "flow-sum", role: "status", dir: "ltr" });
    this.title = el("h2", {});
    this.part = el("span", { class: "look-quiet" });
    const zoom = (label, name, factor) => el("button", { type: "button", "aria-label": name, title: name, onclick: () => this.#zoom(factor) }, label);
    this.zooms = [zoom("−", t("Zoom out"), 2), zoom("+", t("Zoom in"), 0.5)];
    this.kept = el("button", { type: "button", onclick: () => this.#say(t("Kept as {file}", { file: keep(this) })) }, t("Keep as a file"));
    const next = el("section", { class: "look-next" });
    const flow = el("section", { class: "look-flow" });
    this.flow = new Flow(flow, (layer, head) => this.#choose(layer, head), (...number) => this.#tellSum(this.#views().at(-1), this.flow.at.index, ...number));
    this.next = new Next(next, (text) => this.#refresh(this.text.value + text), () => this.looks.length && this.next.draw(this.looks));
    this.root.classList.add("look", "loading", "blank");
    this.root.replaceChildren(
      el("header", { class: "look-top" }, el("h1", {}, t("Look inside your GPT")),
        el("p", { class: "look-pick" }, el("label", { for: "look-weights" }, t("parameters")), this.weights), this.whose),
      el("label", { for: "look-text", class: "look-label" }, t("Type a text")),
      el("div", { class: "look-typed" }, this.text, this.write), this.note, this.offers, this.written,
      el("div", { class: "look-strip" }, this.line, this.arcs), this.told, this.whatIf, this.why,
      (this.body = el("div", { class: "look-body" },
        el("section", { class: "look-all" }, el("h2", {}, t("Heads")), this.heads, el("button", { type: "button", onclick: () => this.#silenceEach() }, t("Silence each head in turn"))),
        el("section", { class: "look-one" }, el("div", { class: "look-title" }, this.title, this.part, ...this.zooms), this.maps, this.sum, this.kept,
          el("p", { class: "look-quiet" }, t("Each row is a token that attends, each column a token attended to. Arrow keys move, + and − zoom."), " ", t("Ctrl with the wheel zooms too, and what is enlarged can be dragged."))),
        next)), flow);
    this.line.addEventListener("pointerover", ({ target }) => target.dataset.place && this.#at([Number(target.dataset.place), null]));
    new ResizeObserver(() => this.#draw()).observe(this.maps);
    whenColoursChange(() => this.looks.length && [this.#drawHeads(), this.#draw()]); // what is open stays
  }

  async #begin() {
    this.#say(t("Your GPT is being loaded … {seconds} s", { seconds: 0 }));
    this.about = await this.#busy(ask("about", {})).catch((error) => this.#say(error.message, true));
    if (!this.about) return;
    this.root.classList.remove("loading");
    const asked = new URLSearchParams(location.search);
    this.weights.replaceChildren(...this.about.weights.map((one) => el("option", { value: one.name }, this.#nameOf(one))));
    const known = (name) => this.about.weights.some((one) => one.name === name);
    this.weights.value = [asked.get("weights"), "trained", `kit-${document.documentElement.lang}`].find(known) ?? this.about.weights[0].name;
    this.asked = asked.get("head")?.split(".").map(Number);
    this.#drawWhose();
    this.#drawChanges();
    this.#refresh(asked.get("text") ?? this.#model().samples[0]);
  }

  #nameOf({ name, steps }) {
    const names = { "kit-en": t("the kit's, trained on English stories"), "kit-ko": t("the kit's, trained on Korean stories"), gpt2: "GPT-2" };
    return names[name] ?? t("yours, trained for {steps} steps", { steps });
  }

  #model() {
    return this.about.weights.find((one) => one.name === this.weights.value);
  }

  #drawWhose() {
    const { whose, faults, device } = this.about;
    const sentences = Object.entries({
      yours: t("Your code: steps {steps}."),
      reference: t("Not passing yet, so the reference's code runs: steps {steps}."),
      kit: t("Not passing yet, and this copy has no reference, so a simple part of the kit's own runs: steps {steps}."),
    }).map(([whom, sentence]) => [Object.keys(whose).filter((one) => whose[one] === whom).map((one) => Number(one.slice(4, 6))), sentence]);
    this.whose.replaceChildren(
      el("summary", {}, t("{count} of 12 steps are yours; computed on {device}", { count: sentences[0][0].length, device })),
      ...sentences.filter(([steps]) => steps.length).map(([steps, sentence]) => el("p", {}, sentence.replace("{steps}", steps.join(", ")))),
      ...Object.values(faults).map((fault) => el("p", {}, fault)));
  }

  // Each change is a switch; what is switched on is shown beside the model as it is.
  #drawChanges() {
    const head = `${this.layer}.${this.head}`;
    const switches = [
      ["mask", t("mask off"), { mask: false }],
      ["positions", t("positions off"), { positions: false }],
      ["head", t("head {head} silenced", { head }), { silenced: [[this.layer, this.head]] }],
      ["dropout", t("dropout on"), { dropout: DROPPED }],
      ["flash", t("flash in place of naive"), { flash: true }, !this.about.flash && t("Step 10 does not pass yet.")],
      ["start", t("before training"), { trained: false }],
      ["code", t("the reference in place of yours"), { code: "kit" }],
    ];
    if (this.changes.head) this.changes.head = switches[2][2];
    this.names = Object.fromEntries(switches.map(([name, label]) => [name, label]));
    this.whatIf.replaceChildren(el("span", { class: "look-label" }, t("What if")), ...switches.map(([name, label, change, missing]) =>
      el("button", { type: "button", disabled: !!missing, title: missing, "aria-pressed": String(name in this.changes), onclick: () => this.#switch(name, change) }, label)));
  }

  #switch(name, change) {
    const place = [...this.whatIf.children].indexOf(document.activeElement);
    this.why.hidden = !("positions" in this.changes) === (name !== "positions"); // it is said while the switch is on
    if (name in this.changes) delete this.changes[name];
    else this.changes[name] = change;
    this.#drawChanges();
    this.whatIf.children[place]?.focus();
    this.#refresh();
  }

  // --- what the server answers ---
  #views() {
    const plain = { text: this.text.value, weights: this.weights.value };
    return Object.keys(this.changes).length ? [plain, Object.assign({ ...plain }, ...Object.values(this.changes))] : [plain];
  }

  async #refresh(text = this.text.value) {
    this.text.value = text;
    this.asking?.abort();
    this.effects = null;
    this.#drawOffers(!text.trim());
    if (!text.trim()) return this.#blank(t("Type a text"));
    const { signal } = (this.asking = new AbortController());
    const views = this.#views();
    const began = performance.now();
    try {
      const looks = [];
      for (const view of views) {
        const look = await this.#busy(ask("look", { view }, signal));
        if (!this.chosen) { // the head whose last token looks back most clearly
          [this.layer, this.head] = this.chosen = this.asked ?? look.clearest;
          this.cell = [(this.last = look.tokens.length - 1), null];
          this.#drawChanges();
        }
        look.map = await this.#mapOf(view, signal);
        const end = look.body.byteLength - this.#model().layers * this.#model().heads * look.side ** 2;
        look.logits = new Float32Array(look.body.slice(0, end));
        look.small = new Uint8Array(look.body, end);
        looks.push(look);
      }
      this.looks = looks;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#blank(error.message, true);
      return this.#drawOffers(true);
    }
    if (this.about.start !== this.looks[0].start) { // a step has changed on disk, and so has whose code answers
      this.about = await ask("about", {});
      this.#drawWhose();
    }
    this.#remember();
    this.#tellAbout(this.looks[0]);
    this.#drawAll();
    this.root.dataset.milliseconds = Math.round(performance.now() - began);
  }

  async #mapOf(view, signal) {
    const { shape: [, n], body } = await ask("layer", { view, layer: this.layer }, signal);
    return { n, values: decoded(body) };
  }

  // Nothing can be drawn: what stood there is taken away, so that no old map is taken for this text's.
  #blank(sentence, isWrong = false) {
    Object.assign(this, { looks: [], tokens: null, cell: null });
    this.root.classList.add("blank");
    this.#say(sentence, isWrong);
  }

  // Texts to try, and the other models: open when the text can't be read as it is.
  #drawOffers(isOpen) {
    const others = this.about.weights.filter((one) => one.name !== this.weights.value);
    const button = (label, onclick) => el("button", { type: "button", onclick }, label);
    this.offers.open = isOpen;
    this.offers.replaceChildren(el("summary", {}, t("Texts to try")),
      ...this.#model().samples.map((sample) => button(sample, () => this.#refresh(sample))),
      ...(isOpen ? others.map((one) => button(t("Another model: {name}", { name: this.#nameOf(one) }), () => {
        this.weights.value = one.name;
        this.chosen = this.asked = null;
        this.#refresh();
      })) : []));
  }

  #tellAbout({ cut, unknown, agrees, lost, typed }) {
    const isDoubtful = lost > 0.1 * typed;
    this.root.classList.toggle("doubtful", isDoubtful);
    if (isDoubtful) this.#drawOffers(true);
    this.#say([
      cut && t("The model sees the last {count} tokens; the {cut} before them are left out.", { count: this.#model().block, cut }),
      lost && t("The model has no token for {lost} of the {typed} characters and leaves them out: {characters}", { lost, typed, characters: unknown.join(" ") }),
      isDoubtful && t("What is drawn is about the rest alone."),
      isDoubtful && t("To train one that reads any text, type: make train BYTES=1"),
      !agrees && t("These weights do not reproduce what step 9's attention returned."),
    ].filter(Boolean).join(" "), isDoubtful);
  }

  #say(sentence, isWrong = false) {
    this.note.textContent = sentence;
    this.note.classList.toggle("wrong", isWrong);
  }

  #remember() {
    const kept = new URLSearchParams({ text: this.text.value.slice(0, 2000), weights: this.weights.value, head: `${this.layer}.${this.head}` });
    this.#soon("remembering", 400, () => location.pathname === "/explore" && history.replaceState(history.state, "", `?${kept}`));
  }

  #soon(what, milliseconds, then) {
    clearTimeout(this[what]);
    this[what] = setTimeout(then, milliseconds);
  }

  // --- drawing ---
  #drawAll() {
    const [look] = this.looks;
    const last = look.tokens.length - 1;
    this.root.classList.remove("blank");
    if (isReplaced(this.tokens ?? [], look.tokens, Math.max(...(this.cell ?? [-1]))) || this.cell?.[0] === this.last) this.cell = [last, null];
    Object.assign(this, { last, tokens: look.tokens });
    this.chips = look.tokens.map((token, place) => el("span", { "data-place": place, role: "option", id: `look-token-${place}` }, shown(token)));
    this.line.replaceChildren(...this.chips);
    this.#drawHeads();
    this.#drawMaps();
    this.next.draw(this.looks);
  }

  #drawHeads() {
    const { layers, heads } = this.#model();
    const [look] = this.looks;
    const area = look.side ** 2;
    this.heads.style.setProperty("--heads", heads);
    const buttons = [];
    for (let place = 0; place < layers * heads; place++) {
      const [layer, head] = [Math.floor(place / heads), place % heads];
      const canvas = el("canvas", { "aria-hidden": "true" });
      const here = layer === this.layer && head === this.head;
      const name = t("layer {layer}, head {head}", { layer, head });
      const effect = this.effects?.[place];
      buttons.push(el("button", { type: "button", "aria-pressed": String(here), title: name, tabindex: here ? 0 : -1, onclick: () => this.#choose(layer, head), onkeydown: (event) => this.#moveHead(event, place) },
        canvas, el("span", {}, `${layer}.${head}`), effect != null && el("b", { class: Math.abs(effect) < 0.05 && "look-little" }, signed(effect))));
    }
    const isFocused = this.heads.contains(document.activeElement);
    this.heads.replaceChildren(...buttons);
    if (isFocused) this.heads.querySelector("[aria-pressed=true]").focus();
    buttons.forEach((button, place) => thumb(button.firstChild, look.small.subarray(place * area, (place + 1) * area), look.side));
  }

  #labels() {
    return [t("as it is"), Object.keys(this.changes).map((name) => this.names[name]).join(", ")];
  }

  #drawMaps() {
    const labels = this.#labels();
    this.title.textContent = t("Layer {layer}, head {head}", { layer: this.layer, head: this.head });
    this.body.classList.toggle("two", this.looks.length > 1);
    const kept = this.drawn ?? [];
    this.drawn = this.looks.map((_look, which) => kept[which] ?? this.#newMap());
    this.drawn.forEach((map, which) => {
      map.label.textContent = this.looks.length > 1 ? labels[which] : "";
      map.canvas.setAttribute("aria-label", `${this.title.textContent} ${map.label.textContent}`);
    });
    this.maps.replaceChildren(...this.drawn.map((map) => map.figure));
    this.sum.textContent = t("Press a cell to see its sum.");
    this.#draw();
  }

  #newMap() {
    const canvas = el("canvas", { tabindex: 0, role: "img" });
    const map = new HeadMap(canvas);
    Object.assign(map.zoom, this.drawn?.[0].zoom); // a second one shows the same part
    map.label = el("figcaption", {});
    map.figure = el("figure", {}, map.label, canvas);
    canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons || event.pointerType !== "mouse") return this.#at(map.under(event) ?? this.cell);
      this.drawn.forEach((each) => each.pan(event.movementX, event.movementY));
      this.#draw();
    });
    canvas.addEventListener("wheel", (event) => { // the page scrolls unless Ctrl is held; a pinch is the same event
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.#zoom(event.deltaY > 0 ? 1.25 : 0.8, map.under(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => (event.key === "Enter" ? this.#pressCell(map, this.cell) : this.#moveCell(event)));
    canvas.addEventListener("click", (event) => this.#pressCell(map, map.under(event)));
    return map;
  }

  // The weights of the head that is shown: n × n.
  #weights({ map: { n, values } }) {
    return values.subarray(this.head * n * n, (this.head + 1) * n * n);
  }

  #draw() {
    if (!this.looks.length || !this.drawn) return;
    const [first] = this.looks;
    const before = this.#weights(first);
    this.drawn.forEach((map, which) => map.draw(this.#weights(this.looks[which]), first.tokens, which ? before : null, this.cell));
    const [{ isWhole, isClosest, count, n }] = this.drawn;
    this.zooms.forEach((button, place) => (button.disabled = place ? isClosest : isWhole));
    this.part.textContent = isWhole ? "" : t("{count} × {count} of {all} × {all}", { count, all: n });
    this.#drawToken();
  }

  #drawToken() {
    const [first, second] = this.looks;
    const n = first.tokens.length;
    const query = this.cell?.[0] ?? -1;
    const rows = query < 0 ? [] : this.looks.map((look, which) => [this.#weights(look).subarray(query * n, (query + 1) * n), which ? "look-b" : "look-a"]);
    this.chips.forEach((chip, place) => {
      chip.classList.toggle("here", place === query);
      chip.style.setProperty("--weight", rows.length ? rows[0][0][place] : 0);
    });
    this.line.setAttribute("aria-activedescendant", query < 0 ? "" : `look-token-${query}`);
    arcs(this.arcs, this.chips, query, rows);
    this.#soon("flowing", FLOWING, () => this.#drawFlow());
    this.told.replaceChildren(...this.#sentences(first, second, query, rows).map((sentence) => el("span", {}, sentence)));
  }

  async #drawFlow() {
    const [layer, head, view, index] = [this.layer, this.head, this.#views().at(-1), this.cell?.[0] ?? this.last];
    const question = JSON.stringify([view, layer, head, index]);
    if (question === this.flowed || !this.looks.length) return;
    this.flowed = question;
    const began = performance.now();
    const answer = await ask("flow", { view, layer, head, index }).catch((error) => error.name !== "AbortError" && this.#say(error.message, true));
    if (!answer || question !== this.flowed) return;
    this.flow.draw(answer, { layer, head, index, token: this.looks[0].tokens[index], tokens: this.looks.at(-1).tokens });
    this.root.dataset.flowed = Math.round(performance.now() - began);
  }

  #sentences(first, second, query, rows) {
    const name = (place) => shown(first.tokens[place]);
    if (query < 0) return [second ? this.#difference(first, second) : t("Point at a token: arcs lead to what it attends to in this head.")];
    const key = this.cell[1] ?? this.#largest();
    const said = [`${name(query)} → ${name(key)}  ${rows.map(([weights]) => percent(weights[key])).join(" · ")}`];
    if (first.expected[query - 1]) {
      said.push(t("Expected here: {tokens}", { tokens: first.expected[query - 1].filter(([, chance]) => chance >= 0.005).map(([token, chance]) => `${shown(token)} ${percent(chance)}`).join(", ") }));
    }
    if (second) said.push(this.#difference(first, second));
    return said;
  }

  // The key that the query looked at attends to most.
  #largest() {
    const [{ tokens: { length: n } }] = this.looks;
    const row = this.#weights(this.looks[0]).subarray((this.cell?.[0] ?? n - 1) * n).subarray(0, n);
    return row.reduce((best, weight, place) => (weight > row[best] ? place : best), 0);
  }

  #difference(first, second) {
    const [before, after] = [first, second].map(({ loss }) => (loss.reduce((sum, one) => sum + one, 0) / Math.max(1, loss.length)).toFixed(2));
    const other = this.#weights(second);
    const most = this.#weights(first).reduce((largest, weight, place) => Math.max(largest, Math.abs(weight - other[place])), 0);
    return t("Loss on this text: {before} as it is, {after} with the change. Largest change in this head: {most}.", { before, after, most: most < 0.0005 ? "0" : most.toFixed(3) });
  }

  // --- what is chosen ---
  #at(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.#draw();
  }

  #moveToken(event) {
    const by = step(event, 0);
    const from = this.cell ? this.cell[0] : by > 0 ? -1 : this.chips.length;
    if (by && this.chips[from + by]) this.#at([from + by, null]);
    if (by) event.preventDefault();
  }

  #moveCell(event) {
    if ("+=-".includes(event.key)) return this.#zoom(event.key === "-" ? 2 : 0.5);
    const n = this.looks[0].tokens.length;
    const by = step(event, n);
    if (!by) return;
    event.preventDefault();
    const [query, key] = [this.cell?.[0] ?? n - 1, this.cell?.[1] ?? 0];
    const cell = Math.abs(by) === 1 ? [query, key + by] : [query + Math.sign(by), key];
    if (Math.min(...cell) < 0 || Math.max(...cell) >= n) return;
    this.drawn.forEach((map) => map.follow(cell));
    this.#at(cell);
  }

  #pressCell(map, cell) {
    if (!cell) return;
    const [index, key, { tokens }] = [cell[0], cell[1] ?? this.#largest(), this.looks[0]];
    this.#tellSum(this.#views()[this.drawn.indexOf(map)], index, "weights", key, this.sum, `${shown(tokens[index])} → ${shown(tokens[key])}`);
  }

  // The sum behind a number: of a weight in a map, or of what the flow shows.
  async #tellSum(view, index, of, number, into, name) {
    const { lines } = await ask("sum", { view, layer: this.layer, head: this.head, index, of, number }).catch((error) => ({ lines: [error.message] }));
    into.replaceChildren(el("b", {}, name), ...lines.map((line) => el("span", {}, line)));
  }

  #zoom(factor, around) {
    if (!this.looks.length) return;
    this.drawn.forEach((map) => map.scale(factor, around ?? [this.cell?.[0] ?? this.last, this.cell?.[1] ?? this.#largest()]));
    this.#draw();
  }

  #moveHead(event, place) {
    const { layers, heads } = this.#model();
    const to = place + step(event, heads);
    if (to === place || to < 0 || to >= layers * heads) return;
    event.preventDefault();
    this.#choose(Math.floor(to / heads), to % heads);
  }

  async #choose(layer, head) {
    const moved = layer !== this.layer;
    [this.layer, this.head] = [layer, head];
    this.#drawChanges();
    this.#remember();
    if (this.changes.head) return this.#refresh();
    this.#drawFlow(); // together with the maps
    const maps = moved ? await Promise.all(this.#views().map((view) => this.#mapOf(view))) : [];
    if (layer !== this.layer) return;
    maps.forEach((map, which) => (this.looks[which].map = map));
    this.#drawHeads();
    this.#drawMaps();
  }

  async #silenceEach() { // what the likeliest next token loses with each of them, layer by layer
    const [[view], { signal }, effects] = [this.#views(), this.asking, (this.effects = [])];
    for (let layer = 0; layer < this.#model().layers && !signal.aborted; layer++) {
      const answer = await ask("each", { view, layer }, signal).catch((error) => error.name !== "AbortError" && this.#say(error.message, true));
      if (!answer || effects !== this.effects) return;
      effects.push(...answer.effects);
      this.#drawHeads();
    }
  }

  // What takes long says how far it is.
  async #busy(work) {
    let isBusy = true;
    const began = performance.now();
    const tell = async () => {
      const { stage, done } = await (await fetch("/data/explore/done")).json();
      const seconds = Math.round((performance.now() - began) / 1000);
      if (isBusy && done < 1) this.#say((STAGES[stage] ?? STAGES.compute)({ percent: percent(done), seconds }));
    };
    const timer = setInterval(tell, 500);
    try {
      return await work;
    } finally {
      isBusy = false;
      clearInterval(timer);
    }
  }

  // --- the text grows ---
  async #write() {
    if (this.writing) return this.writing.abort();
    const { signal } = (this.writing = new AbortController());
    this.write.textContent = t("Stop");
    const views = this.#views();
    const lines = views.map((_view, which) => el("p", {}, views.length > 1 && el("b", {}, this.#labels()[which]), el("span", {})));
    this.written.replaceChildren(...lines);
    try {
      await Promise.all(views.map((view, which) => this.#stream(view, lines[which].lastChild, signal)));
    } catch (error) {
      if (error.name !== "AbortError") this.#say(error.message, true);
    }
    this.writing = null;
    this.write.textContent = t("Generate");
    if (views.length === 1) this.written.replaceChildren();
    this.#refresh(this.text.value + lines[0].lastChild.textContent);
  }

  async #stream(view, into, signal) {
    const answer = await post("write", { view: { ...view, seed: Math.floor(Math.random() * 1e6) }, ids: [], count: WRITTEN, ...this.next.drawing }, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let kept = ""; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (kept + value).split("\n");
      kept = lines.pop();
      for (const { text = "", error } of lines.map((line) => JSON.parse(line))) {
        if (error) throw new Error(error);
        into.textContent += text;
      }
    }
  }
}
