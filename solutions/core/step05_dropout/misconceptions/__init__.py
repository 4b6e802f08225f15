"""What learners get wrong in step 5, each with the check that catches it."""
