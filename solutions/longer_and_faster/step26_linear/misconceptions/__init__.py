"""What learners get wrong in step 26, each with the check that catches it."""
