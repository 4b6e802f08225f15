"""What learners get wrong in `attention_matrix_bytes`, each with the check that catches it."""

from grader.checks.catalogue import misconception


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def elements_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The elements of the matrix were counted, not their bytes.

    An element in float32 takes four bytes.

    Which of the four arguments was not used?
    """
    return batch * num_heads * num_tokens**2


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_number_a_token(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """One number was counted for every token, not for every pair of tokens.

    Every query has a score for every key, so the matrix grows with the square of the length.

    What is the shape of the scores of one head?
    """
    return batch * num_heads * num_tokens * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_head_counted(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The heads were not counted: only one matrix for every sequence.

    Every head has scores of its own.

    How many matrices of T x T does a batch of two sequences with three heads have?
    """
    return batch * num_tokens**2 * bytes_per_element
