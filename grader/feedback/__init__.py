"""Reports on a class: its page, slides, items, similar pairs, tables and results for other systems."""
