"""One report as terminal text, page, heat map. No torch."""
