"""One process that may run code nobody trusts: how it is started, bounded, timed and ended."""
