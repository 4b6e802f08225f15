"""What learners get wrong in step 13, each with the check that catches it."""
