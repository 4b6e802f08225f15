"""The answers, live or on tape, and the known mistakes that give a wrong answer."""
