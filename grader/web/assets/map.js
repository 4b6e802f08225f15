// The left column: tracks, steps with state and points, labs below the step that they need, and what is next.
import { el, get, icon, t, unseen } from "./kit.js";

// A title without what stands behind its colon.
export const short = (title) => title.split(/[:：]/)[0];

const STATES = {
  pass: "pass", fail: "fail", timeout: "timed out", error: "grader error", skipped: "blocked", todo: "to do",
  calm: "not valid Python yet", waiting: "not graded yet", away: "not started",
};

// Minutes and difficulty of a step, as its lesson says them.
export const effort = ({ effort: said, difficulty }) => said && el("span", { class: "small effort", title: t("Difficulty: {number} of 3", { number: difficulty }) },
  said.replace(/[●○]+/, ""), el("span", { "aria-hidden": "true" }, said.replace(/[^●○]+/, "")), unseen(t("Difficulty: {number} of 3", { number: difficulty })));

let drawn = "";
let shown = null; // the place whose row was last brought into view

export function drawMap(map, state, kind, place, next) {
  const now = JSON.stringify([state.tracks, kind, place, next?.name, state.ungraded, state.pending]);
  if (now === drawn) return;
  drawn = now;
  // Its row is brought into view, and stays there when labs are added above it; who has scrolled away is left alone.
  const bottom = map.querySelector(".row[aria-current]")?.getBoundingClientRect().bottom;
  const follows = place !== shown || (bottom > 0 && bottom < innerHeight + 1);
  shown = place;
  const focused = map.contains(document.activeElement) && document.activeElement.getAttribute("href");
  const folded = new Map([...map.querySelectorAll("details")].map((one) => [one.dataset.track, one.open]));
  const link = (path, current, name, ...inside) =>
    el("a", { href: path, class: name, "aria-current": current && "page" }, ...inside);

  const step = (one) => link(`/step/${one.number}`, kind === "step" && one.name === place, `row ${one.status}${state.pending.includes(one.name) ? " pending" : ""}`,
    icon(one.status), el("span", { class: "number" }, one.number), el("span", { class: "title" }, short(one.title), unseen(`, ${t(STATES[one.status])}`),
      one.status !== "pass" && effort(one)), one.status !== "away" && one.most && el("span", { class: "worth" }, `${one.score}/${one.most}`));
  const lab = (one) => link(`/lab/${one.name}`, kind === "lab" && one.name === place, "row lab",
    icon(one.done ? "flask-done" : "flask"), el("span", { class: "title" }, unseen(`${t("Lab")}: `), short(one.title)),
    one.done && unseen(`, ${t("done")}`));

  const track = (one) => {
    const begun = one.started;
    const here = one.steps.some((step) => step.name === place) || one.labs.some((lab) => lab.name === place);
    const rows = one.steps.flatMap((each) => [step(each), ...one.labs.filter((lab) => lab.needs === each.name).map(lab)]);
    const free = one.labs.filter((lab) => !one.steps.some((each) => each.name === lab.needs)).map(lab);
    return el("details", { "data-track": one.name, open: folded.get(one.name) || begun || here },
      el("summary", {}, icon("fold"), el("h2", {}, one.title), el("span", { class: "worth" }, begun ? t("{passed} of {total}", { passed: one.passed, total: one.steps.length }) : t("not started"))),
      !begun && el("p", { class: "small" }, one.after), el("ol", {}, [...rows, ...free].map((row) => el("li", {}, row))));
  };

  map.replaceChildren(
    next ? link(`/step/${next.number}`, kind === "step" && next.name === place, "next", el("span", { class: "small" }, t("Next")),
      el("span", {}, `${next.number} ${short(next.title)}`), icon("onward"), effort(next))
      : state.ungraded ? el("p", { class: "next" }, icon("waiting"), t("Looking at every step …"))
        : el("p", { class: "next" }, icon("pass"), t("Every step passes. Well done.")),
    search(map),
    ...state.tracks.map(track),
  );
  if (focused) map.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  if (follows) map.querySelector(".row[aria-current]")?.scrollIntoView({ block: "nearest" });
}

// A search over the lessons: what it found takes the list's place as long as something is typed.
function search(map) {
  const before = map.querySelector(".search");
  if (before) return before;
  const found = el("ol", { class: "found" });
  const ask = async () => {
    const query = input.value.trim();
    map.classList.toggle("searching", Boolean(query));
    const { results } = query ? await get(`/search?${new URLSearchParams({ q: query })}`) : { results: [] };
    if (query !== input.value.trim()) return;
    found.replaceChildren(...(results.length || !query ? results : [null]).map((one) => el("li", {}, one
      ? el("a", { href: `/step/${one.number}`, class: "row" }, el("span", { class: "number" }, one.number),
        el("span", { class: "title" }, short(one.title), el("span", { class: "small excerpt" }, ...one.excerpt.map(([text, is]) => is ? el("mark", {}, text) : text))))
      : t("No lesson has these words."))));
  };
  const input = el("input", { type: "search", id: "search", placeholder: t("Search the lessons"), "aria-label": t("Search the lessons"), oninput: ask, autocomplete: "off" });
  return el("search", { class: "search" }, input, found);
}
