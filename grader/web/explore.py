"""Look inside your own GPT: what the explore tab asks for. `assets/explore.js` shows it."""

from __future__ import annotations

from starlette.routing import Route

ROUTES: list[Route] = []  # below /data/explore
TEXTS: tuple[
    str, ...
] = ()  # English sentences that `explore.js` says, marked by N_: `t("…")` there is in the language in use
