"""What learners get wrong in step 20, each with the check that catches it."""
