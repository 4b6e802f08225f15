"""What is graded: who is in a class and what they handed in, runs over it, nbgrader, Gradescope."""
