"""Flash attention: exact attention, one block at a time

The T x T matrix of scores grows with the square of the length, and soon it is the largest tensor of the whole model.
Here the built-in comes in for the first time, then the idea that makes it fast: keys and values arrive in blocks, and a
softmax that is built up while they arrive (an online softmax) needs no row of the matrix as a whole.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. Where a ValueError is named, any error will do.

Off limits: scaled_dot_product_attention, flex_attention and nn.MultiheadAttention, in flash_attention only (sdpa needs
the first of them).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention_matrix_bytes(batch: int, num_heads: int, num_tokens: int, bytes_per_element: int = 4) -> int:
    """Bytes that the scores of naive attention take: one number for every pair of tokens, in every head.

    batch: sequences; num_heads: heads of each; num_tokens: T, the length of each; bytes_per_element: 4 in float32.
    """
    ### BEGIN SOLUTION
    return batch * num_heads * num_tokens * num_tokens * bytes_per_element
    ### END SOLUTION


def sdpa(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """Causal attention through torch.nn.functional.scaled_dot_product_attention, which does the work here.

    query, key, value: (B, H, T, d) -> (B, H, T, d). B sequences, H heads, T tokens, d the width of a head.
    float32, float64 or bfloat16; the result has the dtype of query.
    Weights are dropped with probability dropout_p while training, never otherwise.
    """
    ### BEGIN SOLUTION
    # The built-in knows nothing of train() and eval(): it drops whenever its dropout_p is above 0.
    rate = dropout_p if training else 0.0
    return F.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)  # (B, H, T, d)
    ### END SOLUTION


def flash_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """Exact attention by blocks of queries and keys, with an online softmax.

    query: (B, H, T_q, d), key: (B, H, T_k, d), value: (B, H, T_k, d_v) -> context: (B, H, T_q, d_v).
    T_q queries, T_k keys, of any number: also fewer than block_size, also no multiple of it.
    is_causal: query i attends to keys 0 to i. When T_q and T_k differ then, that is an error (a ValueError, or any).
    Numbers: float32, float64, bfloat16 or float16, and the result has the dtype of query. In float64 nine digits are
    right, so nothing may be float32 on the way. Scores of 1000 and -1000 are exact in float32 and float64.
    Gradients flow to query, key and value, once.
    Memory: no tensor or array of the forward pass, a mask included, may hold a T_q x T_k matrix, nor one block of
    queries against all keys. Per batch and head the largest storage has at most
    2 * (T_q + T_k + block_size) * (max(d, d_v) + 1) + 2 * T_q * block_size elements. All that are there at the same
    time have at most 4 times as many: pieces of the matrix that are kept in a list are the matrix. Matrix products take
    at most 4 times the 2 * T_q * T_k * (d + d_v) operations of one pass over all pairs.
    """
    ### BEGIN SOLUTION
    num_queries, num_keys, width = query.shape[-2], key.shape[-2], query.shape[-1]
    if is_causal and num_queries != num_keys:
        raise ValueError(f"is_causal needs as many queries as keys, not {num_queries} queries and {num_keys} keys")

    # Sums over many blocks lose digits in half precision, so halves are added up in float32.
    wide = torch.promote_types(query.dtype, torch.float32)
    contexts = []
    for first_query in range(0, num_queries, block_size):
        rows = slice(first_query, min(first_query + block_size, num_queries))
        query_block = query[..., rows, :].to(wide) * width**-0.5  # (B, H, rows, d)
        # Key blocks that lie wholly in the future of these queries are never looked at.
        last_key = rows.stop if is_causal else num_keys

        maximum = query_block.new_full((*query_block.shape[:-1], 1), -torch.inf)  # (B, H, rows, 1)
        denominator = torch.zeros_like(maximum)  # (B, H, rows, 1)
        context = query_block.new_zeros((*query_block.shape[:-1], value.shape[-1]))  # (B, H, rows, d_v)
        for first_key in range(0, last_key, block_size):
            columns = slice(first_key, min(first_key + block_size, last_key))
            scores = query_block @ key[..., columns, :].to(wide).transpose(-2, -1)  # (B, H, rows, columns)
            if is_causal:
                scores = scores.masked_fill(future(rows, columns, scores.device), -torch.inf)

            # What was added up so far is in units of exp(maximum). When the maximum grows, the unit changes with it.
            new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))  # (B, H, rows, 1)
            rescale = torch.exp(maximum - new_maximum)  # (B, H, rows, 1)
            weights = torch.exp(scores - new_maximum)  # (B, H, rows, columns)
            denominator = denominator * rescale + weights.sum(dim=-1, keepdim=True)  # (B, H, rows, 1)
            context = context * rescale + weights @ value[..., columns, :].to(wide)  # (B, H, rows, d_v)
            maximum = new_maximum
        contexts.append(context / denominator)
    return torch.cat(contexts, dim=-2).to(query.dtype)  # (B, H, T_q, d_v)
    ### END SOLUTION


### BEGIN SOLUTION
def future(rows: slice, columns: slice, device: torch.device) -> Tensor:
    """Which keys of a block lie in the future of which of its queries: bool, one row a query."""
    queries = torch.arange(rows.start, rows.stop, device=device).unsqueeze(-1)  # (rows, 1)
    keys = torch.arange(columns.start, columns.stop, device=device)  # (columns,)
    return keys > queries  # (rows, columns)


### END SOLUTION
