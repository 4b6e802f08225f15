"""What learners get wrong in step 25, each with the check that catches it."""
