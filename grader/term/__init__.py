"""A class that can be talked about: slides, checks as items, similar pairs, feedback for other systems."""
