"""Classes: the students and their files, runs over them, nbgrader, Gradescope."""
