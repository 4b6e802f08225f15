"""What learners get wrong in step 8, each with the check that catches it."""
