"""What learners get wrong in step 15, each with the check that catches it."""
