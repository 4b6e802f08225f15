"""The tools of checks for authors, and one run of a check."""
