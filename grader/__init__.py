"""Attention from scratch: the grader of the exercise kit."""

__version__ = "1.0.0"
