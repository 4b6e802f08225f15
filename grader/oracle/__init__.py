"""Who knows the answers, live or on tape, and which known mistake gives a wrong answer."""
