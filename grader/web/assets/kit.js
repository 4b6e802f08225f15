// What every module of the page uses: its texts, its requests, and a way to make elements.
export const given = JSON.parse(document.getElementById("given").textContent);

// A sentence in the page's language, with {names} filled in.
export const t = (english, values = {}) =>
  Object.entries(values).reduce((said, [name, value]) => said.replaceAll(`{${name}}`, value), given.texts[english] ?? english);

// el("p", {class: "quiet"}, "text", child, …): text is text, never markup.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== false));
  return made;
}

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${answer.status} ${path}`);
  return (answer.headers.get("content-type") ?? "").includes("json") ? answer.json() : answer.arrayBuffer();
}

export async function post(path, body = {}) {
  const answer = await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${path}`);
  return answer.json();
}
