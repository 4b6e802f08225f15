// The page: where it is, what the session says, and which column shows it.
import { el, get, post, t } from "./kit.js";

const [bar, map, middle, right, lost] = ["bar", "map", "middle", "right", "lost"].map((id) => document.getElementById(id));
let state = null;
let place = { kind: "", step: "", lab: "" };
let version = 0;

const steps = () => state.tracks.flatMap((track) => track.steps);

function read() {
  const [, kind, name] = location.pathname.split("/");
  if (kind === "explore") return { kind };
  if (kind === "lab") return { kind, lab: name };
  const step = steps().find((one) => String(one.number) === name) ?? steps().find((one) => one.name === state.next) ?? steps()[0];
  return { kind: "step", step: step.name };
}

function go(path) {
  if (path !== location.pathname) history.pushState(null, "", path);
  show();
}

async function show() {
  const now = read();
  const moved = JSON.stringify(now) !== JSON.stringify(place);
  place = now;
  document.body.dataset.place = place.kind;
  drawMap();
  if (place.kind === "step") {
    const step = steps().find((one) => one.name === place.step);
    if (moved) middle.innerHTML = (await get(`/data/lesson/${step.name}`)).html;
    if (moved || step.version !== version) {
      version = step.version;
      right.innerHTML = (await get(`/data/verdict/${step.name}`)).html;
    }
  } else if (place.kind === "explore" && moved) {
    middle.replaceChildren(el("div", { id: "explore" }));
    right.replaceChildren();
    (await import("./explore.js")).mount(document.getElementById("explore"));
  } else if (moved) {
    middle.replaceChildren(el("h1", {}, t("Lab")));
    right.replaceChildren();
  }
}

function drawMap() {
  const link = (path, ...inside) => el("a", { href: path, "aria-current": path === location.pathname && "page" }, ...inside);
  map.replaceChildren(
    el("p", {}, `${state.score} / ${state.most}`),
    ...state.tracks.map((track) => el("section", {}, el("h2", {}, track.title),
      ...track.steps.map((step) => link(`/step/${step.number}`, `${step.number} ${step.title} ${step.word}`)),
      ...track.labs.map((lab) => link(`/lab/${lab.name}`, `${t("Lab")} ${lab.name}`)))),
    link("/explore", t("Explore")),
  );
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", show);

const stream = new EventSource("/events");
stream.addEventListener("state", (event) => {
  state = JSON.parse(event.data);
  lost.hidden = true;
  show();
});
stream.onerror = () => {
  lost.textContent = t("The session has ended. To continue, type: make course");
  lost.hidden = false;
};
bar.append(el("strong", {}, t("Attention from scratch")), el("button", { type: "button", onclick: () => post(`/do/again/${place.step}`) }, t("Run again")));
