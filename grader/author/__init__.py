"""For authors: lint of a step, tapes, the kit, translations."""
