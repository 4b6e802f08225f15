"""One submission in, one report out: the warm processes and their messages."""
