// A page to keep: the head that is looked at, as one file that needs neither the kit nor a network.
import { given } from "./kit.js";
import { shown } from "./explore_map.js";
import { percent } from "./explore_next.js";

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const STYLE = `body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.25rem}p.tokens span{padding:0 .25rem;border:1px solid #ccd2d9;border-radius:.25rem;white-space:pre;display:inline-block;margin:.125rem}
p.tokens .here{border-color:#1b1f24;font-weight:600}figure{margin:1rem 0}img{max-width:100%}td{padding:0 1rem 0 0;font-variant-numeric:tabular-nums}footer{color:#545d68;font-size:.875rem}`;

// Offers the file for download, and gives its name.
export function keep(explore) {
  const { looks: [look], layer, head, cell, drawn, title, told, whose, weights, text } = explore;
  const query = cell?.[0] ?? look.tokens.length - 1;
  const n = look.tokens.length;
  const row = look.map.values.subarray(head * n * n + query * n, head * n * n + (query + 1) * n);
  const tokens = look.tokens.map((token, index) =>
    `<span${index === query ? ' class="here"' : ""} style="background:rgba(11,98,176,${(0.55 * row[index]).toFixed(3)})">${escaped(shown(token))}</span>`).join("");
  const most = [...row.keys()].sort((one, other) => row[other] - row[one]).slice(0, 8)
    .map((index) => `<tr><td>${escaped(shown(look.tokens[index]))}</td><td>${percent(row[index])}</td></tr>`).join("");
  const next = look.next.slice(0, 8).map((token) => `<li>${escaped(shown(token))}</li>`).join("");
  const maps = drawn.map(({ canvas, label }) => `<figure><figcaption>${escaped(label.textContent)}</figcaption><img alt="${escaped(title.textContent)}" src="${canvas.toDataURL()}"></figure>`).join("");
  const page = `<!doctype html><html lang="${document.documentElement.lang}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title.textContent)}: ${escaped(shown(look.tokens[query]))}</title><style>${STYLE}</style>
<h1>${escaped(title.textContent)}: ${escaped(told.textContent)}</h1><p class="tokens">${tokens}</p><table>${most}</table>${maps}
<h2>${escaped(given.texts["Next token"] ?? "Next token")}</h2><ol>${next}</ol>
<footer>${escaped(weights.selectedOptions[0].textContent)} · ${escaped(whose.firstChild.textContent)}<br>${escaped(text.value)}</footer></html>`;
  const name = `head-${layer}.${head}.html`;
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([page], { type: "text/html" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  return name;
}
