"""`from grader.notebook import check`: the door for notebooks that were handed out; the room is learner/notebook.py."""

from grader.learner.notebook import check, points

__all__ = ["check", "points"]
