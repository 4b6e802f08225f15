"""What learners get wrong in step 10, each with the check that catches it."""
