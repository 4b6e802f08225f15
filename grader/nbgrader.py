"""`from grader.nbgrader import configure`: what nbgrader_config.py imports; the code is in classes/nbgrader.py."""

from grader.classes.nbgrader import configure

__all__ = ["configure"]
