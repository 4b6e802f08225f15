"""Marks: assignments as data, late days, extensions, decisions by hand, and what a regrade changes."""
