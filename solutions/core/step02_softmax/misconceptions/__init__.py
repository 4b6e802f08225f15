"""What learners get wrong in step 2, each with the check that catches it."""
