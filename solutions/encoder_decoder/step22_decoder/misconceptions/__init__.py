"""What learners get wrong in step 22, each with the check that catches it.

A learner's model is made of the same learner's blocks. So what is wrong in `DecoderBlock` is wrong in the model, and
each misconception of the block replaces both.
"""
