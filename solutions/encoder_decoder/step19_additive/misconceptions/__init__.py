"""What learners get wrong in step 19, each with the check that catches it."""
