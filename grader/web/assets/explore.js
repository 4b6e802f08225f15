// Look inside your own GPT.
import { el, t } from "./kit.js";

export function mount(root) {
  root.append(el("h1", {}, t("Explore")));
}
