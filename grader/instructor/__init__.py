"""A class, its pages and tables, nbgrader, Gradescope."""
