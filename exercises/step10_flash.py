# Generated from solutions/step10_flash by `make exercises`: write your code where it says NotImplementedError.
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
    raise NotImplementedError


def sdpa(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """Causal attention through torch.nn.functional.scaled_dot_product_attention, which does the work here.

    query, key, value: (B, H, T, d) -> (B, H, T, d). B sequences, H heads, T tokens, d the width of a head.
    float32, float64 or bfloat16; the result has the dtype of query.
    Weights are dropped with probability dropout_p while training, never otherwise.
    """
    raise NotImplementedError


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
    2 * (T_q + T_k + block_size) * (max(d, d_v) + 1) + 2 * T_q * block_size elements.
    """
    raise NotImplementedError
