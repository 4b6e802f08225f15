"""Attention from scratch: the grader of the exercise kit."""

__version__ = "0.1.0"
