"""What learners get wrong in step 29, each with the check that catches it.

One kernel takes every decision in the right way or in a wrong one. What a wrong way reads stays inside of the tensors:
these run in the judge, which has to survive them.
"""
