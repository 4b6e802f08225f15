"""What learners get wrong in step 21, each with the check that catches it.

A learner's encoder is made of the same learner's blocks. So what is wrong in a class is wrong in all that are made of
it, and each misconception replaces those as well.
"""
