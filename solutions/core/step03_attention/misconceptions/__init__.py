"""What learners get wrong in step 3, each with the check that catches it."""
