"""A learner's tools: watch mode, hints, doctor, the notebook's check()."""
