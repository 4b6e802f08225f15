// What every module of the page uses: its texts, its requests, and a way to make elements.
export const given = JSON.parse(document.getElementById("given").textContent);

// A sentence in the page's language, with {names} filled in.
export const t = (english, values = {}) =>
  (given.texts[english] ?? english).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));

// el("p", {class: "quiet"}, "text", child, …): text is text, never markup.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child != null && child !== false));
  return made;
}

// An icon of the shell's; words beside it say what it means.
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const [svg, use] = [document.createElementNS(space, "svg"), document.createElementNS(space, "use")];
  svg.setAttribute("class", `icon is-${name}`);
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export const unseen = (text) => el("span", { class: "unseen" }, text);

// HTML that the server has made, of its own templates.
export function html(text) {
  const made = document.createElement("template");
  made.innerHTML = text;
  return made.content;
}

// What opens a step's file: a link into the editor, else a button that copies its path.
export function opener(step, label) {
  const [link, path] = given.files[step];
  return link ? el("a", { href: link, title: path }, label) : el("button", { type: "button", "data-copy": path, title: path }, label);
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.lastChild.textContent = t("Copied: {text}", { text: button.dataset.copy });
});

// Draws again in the other colours.
export function whenColoursChange(draw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// What went wrong in the server, as it says it.
export class Fault extends Error {}

async function answered(answer) {
  if (!answer.ok) throw new Fault((await answer.json().catch(() => ({}))).error ?? `${answer.status} ${answer.url}`);
  return answer.json();
}

export const get = async (path) => answered(await fetch(path));

export const post = async (path, body = {}) =>
  answered(await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
