"""What learners get wrong in `attention_matrix_bytes`, each with the check that catches it."""

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step15_costs import reference


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_as_a_float(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> float:
    """The number of bytes was returned as a float.

    A division, `math.pow` or a factor such as `1e0` makes a float, and beyond 2**53 floats skip whole numbers.

    Which of your operations gives a float?
    """
    return float(reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element, num_layers))


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_head(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one head's matrix was counted.

    Every head has scores of its own for every pair of tokens.

    What happens to your result when num_heads doubles?
    """
    return reference.attention_matrix_bytes(batch, 1, num_tokens, bytes_per_element, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_layer(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one layer's scores were counted.

    A backward pass needs the scores of every layer, and they are kept until then.

    Where does your formula use num_layers?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_of_one_sequence(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only one sequence of the batch was counted.

    Every sequence has scores of its own.

    What happens to your result when batch doubles?
    """
    return reference.attention_matrix_bytes(1, num_heads, num_tokens, bytes_per_element, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def elements_counted(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """The numbers were counted, not their bytes.

    A number in float32 takes 4 bytes, in half precision 2.

    Where does your formula use bytes_per_element?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, 1, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def always_four_bytes(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Four bytes were counted for every number, whatever bytes_per_element says.

    A number in float32 takes 4 bytes, in half precision 2.

    Where does your formula use bytes_per_element?
    """
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, 4, num_layers)


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def one_number_per_token(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """One number per token was counted.

    There is one score for every pair of a query and a key.

    How many entries has the matrix for 3 tokens?
    """
    return num_layers * batch * num_heads * num_tokens * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_matrix_bytes")
def bytes_halved_for_a_causal_mask(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Only the scores on and below the diagonal were counted.

    Naive attention makes the whole matrix and hides half of it afterwards: a causal mask saves nothing.

    How large is the tensor that the mask is applied to?
    """
    pairs = num_tokens * (num_tokens + 1) // 2
    return num_layers * batch * num_heads * pairs * bytes_per_element


@misconception(replaces="attention_matrix_bytes", caught_by="test_exact_integers")
def bytes_through_a_float(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """The number was computed in floats and turned into an integer at the end.

    Beyond 2**53 a float has no room for the last digits, and `int` cannot bring them back.

    Can every step of the sum stay an integer: `*`, `**` and `//`?
    """
    return int(float(num_tokens) ** 2 * batch * num_heads * bytes_per_element * num_layers)


@another_form(bytes_as_a_float)
def bytes_in_mebibytes(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> float:
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element, num_layers) / 2**20


@another_form(bytes_as_a_float)
def bytes_in_megabytes(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> float:
    return reference.attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element, num_layers) / 1e6
