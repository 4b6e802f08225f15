"""What learners get wrong in step 23, each with the check that catches it.

A learner's `PatchEmbedding` is made of the same learner's `patchify`, and the model of both. So what is wrong in a
part is wrong in the whole, and each misconception of a part replaces what is made of it, too.
"""
