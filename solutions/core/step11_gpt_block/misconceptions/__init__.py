"""What learners get wrong in step 11, each with the check that catches it."""
