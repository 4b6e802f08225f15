"""What learners get wrong in step 14, each with the check that catches it."""
