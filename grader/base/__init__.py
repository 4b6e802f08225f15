"""Results, limits, paths, language, files: used by every other room. No torch."""
