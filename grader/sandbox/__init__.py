"""One process for untrusted code: how it is started, bounded, timed and ended."""
