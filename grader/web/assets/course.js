// The page: where it is, what the session says, and which column shows it.
import { el, Fault, icon, t, unseen } from "./kit.js";
import { drawMap, short } from "./map.js";
import { StepPlace } from "./step.js";
import { LabPlace } from "./lab.js";

const [bar, map, middle, right, tabs, lost, said] = ["bar", "map", "middle", "right", "tabs", "lost", "said"].map((id) =>
  document.getElementById(id));
const columns = { middle, right };
let state = null;
let place = null; // what is open: update(state) shows what has changed, lab(event) what a run says

export const steps = () => state.tracks.flatMap((track) => track.steps);

// The step to do next, as the session says it; after a step that passes, what comes after that one.
function nextStep(after = null) {
  const one = steps().find((step) => step.name === after);
  const name = one?.status === "pass" ? one.next : state.next;
  return steps().find((step) => step.name === name) ?? null;
}

function named() {
  const [, kind, name] = location.pathname.split("/");
  if (kind === "explore" || kind === "lab") return [kind, name];
  const step = steps().find((one) => String(one.number) === name) ?? nextStep() ?? steps()[0];
  // Without a step in its address the page opens the one to do, as soon as that is known, and stays there.
  if (kind !== "step" && !state.ungraded) history.replaceState(null, "", `/step/${step.number}`);
  return ["step", step.name];
}

function made(kind, name) {
  if (kind === "step") return new StepPlace(name, columns, go, nextStep);
  if (kind === "lab") return new LabPlace(name, columns);
  const root = el("div", { id: "explore" });
  middle.replaceChildren(root);
  right.replaceChildren();
  import("./explore.js").then((explore) => explore.mount(root));
  return { kind, name, update() {}, title: () => t("Explore") };
}

// Goes to a place of the page, as its links do.
export function go(path) {
  if (path !== location.pathname) history.pushState(null, "", path);
  document.body.dataset.tab = "middle";
  show();
  middle.scrollTop = right.scrollTop = 0;
  scrollTo(0, 0);
  middle.focus({ preventScroll: true });
}

function show() {
  const [kind, name] = named();
  if (place?.kind !== kind || place.name !== name) {
    place?.leave?.();
    document.body.dataset.place = kind;
    place = made(kind, name);
  }
  place.update(state);
  const isDone = kind === "step" && steps().find((step) => step.name === name).status === "pass";
  drawMap(map, state, kind, name, nextStep(isDone ? name : null)); // after green, what the button leads to
  drawBar();
  document.title = `${place.title(state)} · ${t("Attention from scratch")}`;
}

function drawBar() {
  const part = (100 * Number(state.score)) / Math.max(Number(state.most), 1);
  document.getElementById("points").replaceChildren(
    el("span", {}, state.points),
    el("span", { class: "meter", "aria-hidden": "true" }, el("span", { style: `width: ${part}%` })),
  );
  document.getElementById("to-explore").toggleAttribute("aria-current", location.pathname === "/explore");
}

function say(before) {
  for (const step of steps()) {
    const old = before?.get(step.name);
    if (old && old.version !== step.version) said.textContent = `${step.number} ${short(step.title)}: ${step.word}`;
  }
}

// --- what stands around the columns ---

// Words of the tabs where they are no step's.
const TABS = { lab: { middle: "Lab", right: "Result" }, explore: { middle: "Explore" } };
const THEMES = { "": ["system", "Colours: as the system"], light: ["sun", "Colours: light"], dark: ["moon", "Colours: dark"] };

function theme(button) {
  const chosen = document.documentElement.dataset.theme ?? "";
  const [mark, word] = THEMES[chosen];
  button.replaceChildren(icon(mark), unseen(t(word)));
  button.title = t(word);
}

function build() {
  const button = el("button", { type: "button", class: "quiet-button", onclick: () => {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
    if (next) document.documentElement.dataset.theme = localStorage.theme = next;
    else {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("theme");
    }
    theme(button);
  } });
  theme(button);
  bar.append(
    el("a", { href: "/", class: "brand", "aria-label": t("Attention from scratch") }, icon("brand"), el("strong", {}, t("Attention from scratch"))),
    el("span", { id: "points", class: "points" }),
    el("a", { href: "/explore", id: "to-explore", class: "quiet-button", "aria-label": t("Explore") }, icon("eye"), el("span", {}, t("Explore"))),
    button,
  );
  tabs.append(...[["middle", "book", "Lesson"], ["right", "verdict", "Verdict"], ["map", "list", "Course"]].map(([tab, mark, word]) =>
    el("button", { type: "button", "data-tab": tab, onclick: () => {
      document.body.dataset.tab = tab;
      marked();
    }, "data-word": word }, icon(mark), el("span", {}, t(word)))));
  const marked = () => tabs.querySelectorAll("button").forEach((one) => {
    one.setAttribute("aria-pressed", one.dataset.tab === (document.body.dataset.tab ?? "middle"));
    one.lastChild.textContent = t(TABS[document.body.dataset.place]?.[one.dataset.tab] ?? one.dataset.word);
    if (one.dataset.tab === "right") right.ariaLabel = one.lastChild.textContent;
  });
  new MutationObserver(marked).observe(document.body, { attributeFilter: ["data-tab", "data-place"] });
  document.body.dataset.tab = "middle";
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", show);

// The keys of watch mode, also on a Korean keyboard; `/` searches.
const KOREAN = { ㅜ: "n", ㅗ: "h", ㅣ: "l", ㄱ: "r" };
const KEYS = {
  n: () => nextStep(place.name) && go(`/step/${nextStep(place.name).number}`),
  h: () => place.hints?.querySelector("button")?.click(),
  l: () => tab("middle"),
  r: () => place.again?.(),
  "/": () => {
    tab("map");
    document.getElementById("search").focus();
  },
};
function tab(name) {
  document.body.dataset.tab = name;
  document.getElementById(name).focus?.({ preventScroll: true });
}
addEventListener("keydown", (event) => {
  if (!place || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const act = KEYS[KOREAN[event.key] ?? event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const alarm = (sentence) => {
  lost.textContent = sentence;
  lost.hidden = false;
};
addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Fault)) return;
  event.preventDefault();
  alarm(event.reason.message);
});

build();
const stream = new EventSource("/events");
stream.addEventListener("state", (event) => {
  const before = state && new Map(steps().map((step) => [step.name, step]));
  state = JSON.parse(event.data);
  lost.hidden = true;
  show();
  say(before);
});
stream.addEventListener("lab", (event) => place?.lab?.(JSON.parse(event.data)));
stream.onerror = () => alarm(t("The session has ended. To continue, type: make course"));
