"""What learners get wrong in step 17, each with the check that catches it."""
