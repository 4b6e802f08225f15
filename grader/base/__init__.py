"""Results, limits, paths, language, files: what everything else uses. No torch."""
