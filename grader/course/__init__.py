"""Tracks, steps, stubs, lessons and submissions: text on disk, nothing is run."""
