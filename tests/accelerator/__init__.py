"""A second device without hardware: `simulated`, and the tests that need one."""
