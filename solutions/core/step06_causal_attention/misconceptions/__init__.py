"""What learners get wrong in step 6, each with the check that catches it."""
