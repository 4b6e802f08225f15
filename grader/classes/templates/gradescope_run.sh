#!/usr/bin/env bash
# Run for each submission: grades it and writes results.json. Without results Gradescope says that this script failed.
set -euo pipefail
autograder="${AUTOGRADER:-/autograder}"
cd "$autograder/source/kit"
exec "$autograder/venv/bin/python" -m grader.classes.gradescope "$autograder/submission" "$autograder/results/results.json"
