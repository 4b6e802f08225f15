"""What learners get wrong in step 27, each with the check that catches it."""
