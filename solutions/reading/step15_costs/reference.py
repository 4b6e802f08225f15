"""What attention costs, counted exactly

Before a model is trained somebody works out on paper what it will cost: how many parameters, how many operations, how
many bytes. Here you write these sums down, for the attention of the core steps, for GPT-2, for the layers that the
Transformer replaced, and for the cache that a model keeps while it writes.

Nothing is built or measured: every function is a formula of whole numbers. The results are exact Python integers, up to
2**63, and never floats. A multiply-add is two floating-point operations (FLOPs), so a product of an (m, k) matrix and a
(k, n) matrix takes 2 * m * k * n. Softmax, scaling, masks, biases and norms count nothing, and a causal mask saves
nothing.

Nothing is off limits.
"""


def attention_matrix_bytes(
    batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4, num_layers: int = 1
) -> int:
    """Bytes that the scores of naive attention take: one number for every pair of tokens, in every head and layer.

    batch: sequences; num_heads: heads of each layer; num_tokens: T, the length of each sequence; bytes_per_element: 4
    in float32; num_layers: layers whose scores are kept, as a backward pass needs them.
    """
    ### BEGIN SOLUTION
    return num_layers * batch * num_heads * num_tokens**2 * bytes_per_element
    ### END SOLUTION


def attention_flops(batch: int, num_heads: int, num_tokens: int, d_model: int) -> tuple[int, int, int]:
    """FLOPs of one layer of multi-head self-attention: `(projections, scores, weighted_sum)`.

    projections: the four matrices, each (d_model, d_model), of query, key, value and output, applied to every token;
    scores: every query times every key, in all heads together; weighted_sum: the weights times the values, likewise.
    Each head is d_model / num_heads wide. Raises ValueError when num_heads does not divide d_model.
    """
    ### BEGIN SOLUTION
    head_width = width_of_heads(d_model, num_heads)
    projections = 4 * 2 * batch * num_tokens * d_model * d_model
    scores = 2 * batch * num_heads * num_tokens * num_tokens * head_width  # (T, d) times (d, T)
    weighted_sum = 2 * batch * num_heads * num_tokens * num_tokens * head_width  # (T, T) times (T, d)
    return projections, scores, weighted_sum
    ### END SOLUTION


def multi_head_attention_parameters(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> int:
    """Parameters of step 8's MultiHeadAttention.

    W_query, W_key and W_value lead from d_in to d_out, the width of all heads together, and have a bias each if
    qkv_bias; out_proj leads from d_out to d_out and always has one. Raises ValueError when num_heads does not divide
    d_out.
    """
    ### BEGIN SOLUTION
    width_of_heads(d_out, num_heads)
    return 3 * linear(d_in, d_out, qkv_bias) + linear(d_out, d_out)
    ### END SOLUTION


def gpt_parameters(vocab_size: int, block_size: int, n_layer: int, n_head: int, n_embd: int, bias: bool = True) -> int:
    """Parameters of step 12's GPT: the head shares its weight with the token embedding and is counted once.

    bias=False leaves out every bias, those of the norms included. GPT-2 (50257, 1024, 12, 12, 768) has 124,439,808.
    Raises ValueError when n_head does not divide n_embd.
    """
    ### BEGIN SOLUTION
    width_of_heads(n_embd, n_head)
    norm = n_embd + bias * n_embd
    attention = linear(n_embd, 3 * n_embd, bias) + linear(n_embd, n_embd, bias)  # c_attn, c_proj
    mlp = linear(n_embd, 4 * n_embd, bias) + linear(4 * n_embd, n_embd, bias)  # c_fc, c_proj
    block = norm + attention + norm + mlp
    return vocab_size * n_embd + block_size * n_embd + n_layer * block + norm  # wte, wpe, h, ln_f
    ### END SOLUTION


def layer_costs(layer: str, n: int, d: int, k: int = 3, r: int = 128) -> tuple[int, int, int]:
    """Table 1 of "Attention Is All You Need", every constant 1: `(operations, sequential, path)` of one layer.

    n: tokens; d: width; operations: multiplications; sequential: operations that must wait for each other; path: steps
    that a signal takes between the two tokens furthest apart. By the name of `layer`:

    - "self-attention": n * n * d, 1, 1;
    - "recurrent": n * d * d, n, n;
    - "convolutional", dilated kernels of width k, at least 2: k * n * d * d, 1, the smallest m of 1 or more with
      k**m >= n;
    - "restricted" (self-attention to the r nearest tokens): r * n * d, 1, n / r rounded up.

    Any other name is an error (ValueError).
    """
    ### BEGIN SOLUTION
    if layer == "self-attention":
        return n * n * d, 1, 1
    if layer == "recurrent":
        return n * d * d, n, n
    if layer == "convolutional":
        layers = 1
        while k**layers < n:  # a floating logarithm is wrong here: math.log(125, 5) is above 3
            layers += 1
        return k * n * d * d, 1, layers
    if layer == "restricted":
        return r * n * d, 1, -(-n // r)  # // rounds down, so that the negated one rounds up
    raise ValueError(f"there is no layer {layer!r} in the table")
    ### END SOLUTION


def kv_cache_bytes(
    batch: int, num_tokens: int, n_layer: int, num_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Bytes of the keys and the values that a model keeps while it writes, in every layer.

    batch: sequences; num_tokens: kept of each; num_kv_heads: heads of keys and values, which may be fewer than those of
    queries; head_dim: width of a head; bytes_per_element: 2 in half precision.
    """
    ### BEGIN SOLUTION
    return 2 * n_layer * batch * num_tokens * num_kv_heads * head_dim * bytes_per_element
    ### END SOLUTION


### BEGIN SOLUTION
def width_of_heads(width: int, num_heads: int) -> int:
    """What a head has of the width. Raises ValueError when it cannot be shared out evenly."""
    if width % num_heads != 0:
        raise ValueError(f"a width of {width} is not divisible by {num_heads} heads")
    return width // num_heads


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    """Parameters of a linear layer."""
    return inputs * outputs + bias * outputs


### END SOLUTION
