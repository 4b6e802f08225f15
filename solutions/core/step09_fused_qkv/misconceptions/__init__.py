"""What learners get wrong in step 9, each with the check that catches it."""
