"""Labs and the capstone: experiments that run the learner's own code, in their own process."""
