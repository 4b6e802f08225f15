"""Makes the checks of the steps items of pytest, in the repository and in the learner's kit."""

pytest_plugins = ["grader.learner.pytest_plugin"]
