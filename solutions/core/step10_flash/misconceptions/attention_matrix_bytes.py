"""What learners get wrong in `attention_matrix_bytes`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception


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


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def length_doubled(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The number of tokens was doubled, and not squared.

    Every query has a score for every key: T of each make T times T numbers.

    How many scores do three queries and three keys have?
    """
    return batch * num_heads * num_tokens * 2 * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def only_half_of_the_matrix(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """Only the scores on and below the diagonal were counted.

    The naive way makes the whole matrix and hides the future in it afterwards. What is hidden takes its bytes too.

    What is the shape of the scores of one head, before they are masked?
    """
    return batch * num_heads * (num_tokens * (num_tokens + 1) // 2) * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def mebibytes_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> float:
    """The result was converted into a larger unit: kilobytes, megabytes or gigabytes.

    The step asks for bytes. Whoever wants to read another unit can divide.

    How many bytes does a single number in float32 take, and what does your function say?
    """
    return batch * num_heads * num_tokens**2 * bytes_per_element / 1024**2


@another_form(mebibytes_instead_of_bytes)
def kibibytes_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> float:
    return batch * num_heads * num_tokens**2 * bytes_per_element / 1024


@another_form(mebibytes_instead_of_bytes)
def gibibytes_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> float:
    return batch * num_heads * num_tokens**2 * bytes_per_element / 1024**3


@another_form(mebibytes_instead_of_bytes)
def megabytes_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> float:
    return batch * num_heads * num_tokens**2 * bytes_per_element / 1e6


@another_form(mebibytes_instead_of_bytes)
def gigabytes_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> float:
    return batch * num_heads * num_tokens**2 * bytes_per_element / 1e9


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bits_instead_of_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """The bytes were multiplied by 8.

    That counts bits. `bytes_per_element` is in bytes, and so is the result.

    How many bytes does a single number in float32 take, and what does your function say?
    """
    return batch * num_heads * num_tokens**2 * bytes_per_element * 8
