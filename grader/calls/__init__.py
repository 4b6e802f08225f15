"""A call and its answer: the values in them, their encoding, and the responder."""
