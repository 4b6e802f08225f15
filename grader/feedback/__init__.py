"""What is said of it: the class page, slides, items, similar pairs, tables and results for other systems."""
