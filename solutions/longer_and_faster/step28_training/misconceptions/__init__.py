"""What learners get wrong in step 28, each with the check that catches it."""
