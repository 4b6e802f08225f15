"""What learners get wrong in step 16, each with the check that catches it."""
