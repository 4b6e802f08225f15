// A lab: what it asks, a prediction, its run, and its result.
import { el, get, html, icon, post, t } from "./kit.js";
import { short } from "./map.js";

export class LabPlace {
  kind = "lab";

  constructor(name, { middle, right }) {
    Object.assign(this, { name, middle, right, about: null, running: null, result: 0, steps: [] });
    middle.replaceChildren(el("p", { class: "small" }, t("Loading …")));
    this.progress = el("div", { class: "progress", role: "status" });
    this.page = el("div", { class: "result" });
    right.replaceChildren(this.progress, this.page);
    this.read();
  }

  title() {
    return this.about ? short(this.about.title) : t("Lab");
  }

  update(state) {
    this.steps = state.tracks.flatMap((track) => track.steps);
    if (this.about) this.drawNeeds();
  }

  lab(event) {
    if (event.name !== this.name) return;
    this.running = event.over ? null : event;
    this.show(event);
    if (event.over) this.read();
  }

  async read() {
    this.about = await get(`/data/lab/${this.name}`);
    const { title, about, question, answers, seconds, prediction } = this.about;
    this.running = this.about.running;
    this.needs = el("p", { class: "needs" });
    const { answer: right, answered } = this.about;
    const mark = (answer, number) => right > 0 && (number === right ? icon("pass") : answer === prediction && icon("fail"));
    const choice = (answer, number) => el("label", {},
      el("input", { type: "radio", name: "prediction", value: number + 1, checked: answer === prediction, onchange: () => { this.form.elements.words.value = ""; } }), el("span", {}, answer), mark(answer, number + 1));
    const own = answers.includes(prediction) ? "" : prediction;
    this.form = el("form", { class: "prediction", onsubmit: (event) => this.run(event) },
      el("fieldset", {}, el("legend", {}, t("What do you expect?")), ...answers.map(choice),
        el("label", { class: "own" }, el("span", {}, t("In your own words")), el("input", { type: "text", name: "words", maxlength: 400, value: own, autocomplete: "off", oninput: () => this.form.querySelectorAll(":checked").forEach((one) => { one.checked = false; }) }))),
      el("button", { class: "primary" }, icon("run"), t("Run the lab")),
      el("label", { class: "seconds" }, t("Seconds"), el("input", { type: "number", name: "seconds", min: 1, max: 3600, value: Math.round(seconds) })));
    this.middle.replaceChildren(el("article", { class: "lesson" }, el("p", { class: "small kind" }, icon("flask"), t("Lab")),
      el("h1", {}, title), html(about), this.needs, el("h2", {}, t("The question")), html(question)), this.form,
      el("div", { class: "answered", role: "status" }, ...answered.map((sentence) => el("p", {}, sentence))));
    document.title = `${this.title()} · ${t("Attention from scratch")}`;
    this.drawNeeds();
    this.show({ ...(this.running ?? {}), result: this.about.result });
  }

  drawNeeds() {
    const needed = this.about.needs.map((name) => this.steps.find((step) => step.name === name)).filter(Boolean);
    this.needs.replaceChildren(...(needed.length ? [t("It uses: "), ...needed.flatMap((step) =>
      [el("a", { href: `/step/${step.number}` }, icon(step.status), `${step.number} ${short(step.title)}`), " "])] : []));
  }

  async run(event) {
    event.preventDefault();
    const chosen = new FormData(this.form);
    document.body.dataset.tab = "right";
    this.running = { done: null, left: "", what: t("Loading torch, once …") };
    this.show(this.running);
    await post(`/do/lab/${this.name}`, { prediction: chosen.get("words") || chosen.get("prediction") || "", seconds: chosen.get("seconds") }).catch((error) => {
      this.running = null;
      this.show({ failed: `${t("Another lab is running. Wait until it is done.")} (${error.message})` });
    });
  }

  // `done` is null while nothing is measured yet: the bar moves without a figure.
  show({ done = null, left = "", what = "", failed = "", result }) {
    this.form.querySelector("button").disabled = Boolean(this.running);
    this.progress.replaceChildren(...(this.running ? [
      el("progress", { max: 100, value: done, "aria-label": t("Progress") }), done != null && el("span", {}, `${done} %`),
      el("span", { class: "small" }, [left, what].filter(Boolean).join(" · ")),
      el("button", { type: "button", onclick: () => post(`/do/lab-stop/${this.name}`) }, t("Stop")),
    ].filter(Boolean) : failed ? [icon("fail"), el("p", {}, failed)] : []));
    if (result && result !== this.result) {
      this.result = result;
      this.page.replaceChildren(el("iframe", { src: `/lab-result/${this.name}?at=${result}#prediction`, title: t("What was measured"), sandbox: "" }));
    } else if (!this.result) {
      this.page.replaceChildren(el("p", { class: "empty" }, this.running ? t("What is measured is shown here.") : t("Predict first, then run it: what was measured is shown here.")));
    }
  }
}
