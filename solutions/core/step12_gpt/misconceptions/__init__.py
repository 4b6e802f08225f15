"""What learners get wrong in step 12, each with the check that catches it."""
