// A step: its lesson with hints in the middle, its verdict on the right, and after green what was built and what comes next.
import { el, get, html, icon, post, t, unseen } from "./kit.js";
import { effort, short } from "./map.js";

export class StepPlace {
  kind = "step";

  constructor(name, { middle, right }, go, nextAfter) {
    Object.assign(this, { name, middle, right, go, nextAfter, version: -1, saved: null, noted: null, said: "", graded: null });
    this.lesson = el("article", { class: "lesson" }, el("p", { class: "small" }, t("Loading …")));
    this.hints = el("section", { class: "hints" });
    this.solution = el("section", { class: "solution" });
    this.pager = el("nav", { class: "pager", "aria-label": t("Steps") });
    middle.replaceChildren(this.lesson, this.hints, this.solution, this.pager);
    this.waiting = el("section", { class: "grading", role: "status", hidden: true });
    this.at = el("span", { class: "small" });
    this.note = el("div", { class: "note", role: "status" });
    this.verdict = el("div", { class: "verdict" });
    const tool = (mark, word, act) => el("button", { type: "button", class: "quiet-button", onclick: act }, icon(mark), t(word));
    right.replaceChildren(
      el("header", { class: "tools" }, el("h2", { class: "small" }, t("Verdict")), this.at,
        tool("again", "Run again", () => this.again()), tool("reset", "Start over", () => this.ask())),
      this.note, this.waiting, this.verdict);
    this.read();
  }

  step(state) {
    return state.tracks.flatMap((track) => track.steps).find((one) => one.name === this.name);
  }

  title(state) {
    const step = this.step(state);
    return `${{ pass: "✓", fail: "✗", timeout: "✗" }[step.status] ?? "·"} ${step.number} ${short(step.title)}`;
  }

  async read() {
    const { html: text, hints, ...said } = await get(`/data/lesson/${this.name}`);
    this.lesson.replaceChildren(
      el("p", { class: "kind small" }, t("Step {number}", { number: Number(this.name.slice(4, 6)) }), " · ", effort(said)),
      html(text || `<p>${t("There is no lesson for this step.")}</p>`));
    this.drawHints(hints);
  }

  drawHints({ given, total }) {
    const left = given.length < total;
    this.hints.replaceChildren(...(total ? [
      el("h2", {}, t("Hints")),
      ...given.map((hint, number) => el("div", { class: "hint" }, el("h3", {}, t("Hint {number} of {total}", { number: number + 1, total })), html(hint))),
      left ? el("button", { type: "button", onclick: async () => {
        this.drawHints(await post(`/do/hint/${this.name}`));
        (this.hints.querySelector("button") ?? this.hints.lastElementChild).focus?.();
      } }, icon("hint"), t("Show hint {number} of {total}", { number: given.length + 1, total }))
        : el("p", { class: "small" }, t("These are all the hints; the lesson explains the most.")),
    ] : []));
  }

  async update(state) {
    const step = this.step(state);
    this.drawWaiting(state);
    this.follow(state);
    this.drawPager(state);
    const shown = `${step.version} ${step.status === "away"}`;
    if (shown === this.version) return;
    this.version = shown;
    this.right.querySelectorAll(".tools button").forEach((button) => { button.hidden = step.status === "away"; });
    if (step.status === "away") return this.offer(state, step);
    const { html: text } = await get(`/data/verdict/${this.name}`);
    if (shown !== this.version) return; // a newer one is on its way
    this.at.textContent = step.at;
    this.draw(text);
    if (step.status === "pass") this.green(state, step);
    else this.solution.replaceChildren();
  }

  // From a save on: what was said is about other code, so it is greyed; what is asked now, and for how long, is said.
  drawWaiting({ pending, grading, stopped }) {
    const is = pending.includes(this.name);
    const now = is && grading?.step === this.name ? grading : null;
    this.verdict.classList.toggle("stale", is || stopped === this.name);
    this.waiting.hidden = !is && stopped !== this.name;
    if (!this.waiting.hidden) this.waiting.replaceChildren(...(is ? [
      el("strong", {}, t("grading")), now && el("span", { class: "seconds" }, t("{seconds} s", { seconds: now.seconds })),
      el("button", { type: "button", onclick: () => post(`/do/stop/${this.name}`) }, t("Stop")),
      now?.check && el("p", { class: "small" }, now.check), now?.failed && el("p", { class: "failed" }, now.failed),
    ].filter(Boolean) : [el("p", {}, t("Stopped. Save the file or run it again."))]));
  }

  again() {
    return post(`/do/again/${this.name}`);
  }

  draw(text) {
    const open = new Map([...this.verdict.querySelectorAll("details")].map((one) => [one.dataset.key, one.open]));
    this.verdict.replaceChildren(html(text));
    this.verdict.classList.remove("changed");
    if (this.graded !== null) requestAnimationFrame(() => this.verdict.classList.add("changed"));
    this.graded = true;
    for (const one of this.verdict.querySelectorAll("details[data-key]")) if (open.has(one.dataset.key)) one.open = open.get(one.dataset.key);
    const code = this.verdict.querySelector(":scope > .code");
    const line = [".fault", ".body", ".about"].map((one) => code?.querySelector(one)).find(Boolean);
    // As soon as it is seen: on a phone that is later.
    if (line) new ResizeObserver(() => { code.scrollTop = line.offsetTop - code.clientHeight / 3; }).observe(code);
  }

  // A save of another step: a link to it, and the page stays where its reader is.
  follow(state) {
    const [name, count] = state.saved ?? ["", 0];
    if (this.saved !== null && count !== this.saved) this.noted = name;
    this.saved = count;
    const other = this.noted && this.noted !== this.name && state.tracks.flatMap((track) => track.steps).find((one) => one.name === this.noted);
    const said = other ? `${other.name} ${other.status} ${count}` : "";
    if (said === this.said) return;
    this.said = said;
    this.note.replaceChildren(...(other ? [
      el("a", { href: `/step/${other.number}` }, icon(other.status), t("You saved {step}", { step: `${other.number} ${short(other.title)}` }), icon("onward"))] : []));
  }

  drawPager(state) {
    const every = state.tracks.flatMap((track) => track.steps);
    const at = every.findIndex((one) => one.name === this.name);
    const to = (one, name, mark) => one && el("a", { href: `/step/${one.number}`, class: name }, icon(mark), el("span", {}, `${one.number} ${short(one.title)}`));
    this.pager.replaceChildren(...[to(every[at - 1], "back", "back"), to(every[at + 1], "onward", "onward")].filter(Boolean));
  }

  async green(state, step) {
    const track = state.tracks.find((one) => one.steps.includes(step));
    const next = this.nextAfter(this.name);
    const labs = track.labs.filter((lab) => lab.needs === this.name);
    this.verdict.querySelector("#onward").replaceChildren(...[
      next ? el("a", { href: `/step/${next.number}`, class: "primary" }, t("Next: {step}", { step: `${next.number} ${short(next.title)}` }), icon("onward"))
        : !state.ungraded && el("a", { href: "/explore", class: "primary" }, t("Look inside your GPT"), icon("onward")),
      ...labs.map((lab) => el("a", { href: `/lab/${lab.name}`, class: "second" }, icon("flask"), t("Lab: {lab}", { lab: short(lab.title) })))].filter(Boolean));
    const version = this.version;
    const [built, solution] = await Promise.all([get(`/data/built/${this.name}`), get(`/data/solution/${this.name}`)]);
    if (version !== this.version) return;
    this.drawBuilt(built.html);
    this.solution.replaceChildren(html(solution.html));
  }

  drawBuilt(text) {
    const built = this.verdict.querySelector("#built");
    built?.replaceChildren(html(text));
    built?.querySelector("form")?.addEventListener("submit", async (event) => {
      event.preventDefault();
      const sentence = new URLSearchParams({ text: new FormData(event.target).get("text") });
      this.drawBuilt((await get(`/data/built/${this.name}?${sentence}`)).html);
      built.querySelector("input")?.focus();
    });
  }

  offer(state, step) {
    const track = state.tracks.find((one) => one.steps.includes(step));
    this.verdict.replaceChildren(
      el("header", { class: "status away" }, icon("away"), el("div", {}, el("h2", {}, t("not started")), el("p", {}, track.after))),
      el("p", {}, t("To start, its files are written into your exercises; what is there stays.")),
      el("button", { type: "button", class: "primary", onclick: () => post(`/do/begin/${this.name}`) }, t("Start: {track}", { track: track.title }), icon("onward")));
  }

  ask() {
    const dialog = el("dialog", { onclose: async () => {
      dialog.remove();
      if (dialog.returnValue === "yes") this.note.replaceChildren((await post(`/do/reset/${this.name}`)).said);
    } }, el("form", { method: "dialog" },
      el("p", {}, t("Put the stub back? Your work is kept next to it, dated.")),
      el("button", { value: "yes", class: "primary" }, t("Put the stub back")), el("button", { value: "" }, t("Cancel"))));
    document.body.append(dialog);
    dialog.showModal();
  }
}
