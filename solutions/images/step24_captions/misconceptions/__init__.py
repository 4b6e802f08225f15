"""What learners get wrong in step 24, each with the check that catches it."""
