"""What learners get wrong in step 18, each with the check that catches it."""
