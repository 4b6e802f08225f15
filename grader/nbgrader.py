"""`from grader.nbgrader import configure`: the door for nbgrader_config.py; the room is instructor/nbgrader.py."""

from grader.classes.nbgrader import configure

__all__ = ["configure"]
