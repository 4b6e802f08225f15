"""What pip installs: the command `attention` (console.py) and, in a released wheel, the course (kit.zip)."""
