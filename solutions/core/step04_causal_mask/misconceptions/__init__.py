"""What learners get wrong in step 4, each with the check that catches it."""
