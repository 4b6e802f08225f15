"""Mistakes that operators make of any reference: the same families in every step."""
