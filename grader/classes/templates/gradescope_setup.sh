#!/usr/bin/env bash
# Run once, when Gradescope builds the autograder's image: Python, and the packages that the kit needs.
set -euo pipefail
autograder="${AUTOGRADER:-/autograder}"
kit="$autograder/source/kit"

new_enough() { command -v "$1" > /dev/null && "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))'; }

python=""
for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
  if new_enough "$candidate"; then python="$candidate"; break; fi
done
if [ -z "$python" ]; then
  apt-get update
  apt-get install -y python3.11 python3.11-venv
  python=python3.11
fi
"$python" -m venv "$autograder/venv"
"$autograder/venv/bin/python" -m pip install --no-cache-dir -r "$kit/requirements/base.lock"

# Where the kernel has no Landlock, a learner's process has at least no right to read what belongs to somebody else.
chown -R 65533 "$kit/solutions"
chmod -R go= "$kit/solutions"
