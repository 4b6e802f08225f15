"""What authors write checks with, and one run of a check."""
