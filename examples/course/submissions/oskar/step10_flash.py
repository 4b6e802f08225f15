import torch
from torch.nn.functional import scaled_dot_product_attention


def attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element=4):
    return bytes_per_element * batch * num_heads * num_tokens**2


def sdpa(query, key, value, dropout_p=0.0, training=True):
    return scaled_dot_product_attention(query, key, value, None, dropout_p if training else 0.0, True)


def flash_attention(query, key, value, is_causal=False, block_size=64):
    Tq, Tk, d = query.size(-2), key.size(-2), query.size(-1)
    if is_causal and Tq != Tk:
        raise ValueError("causal attention needs as many queries as keys")
    work = torch.float64 if query.dtype == torch.float64 else torch.float32
    out = []
    for i in range(0, Tq, block_size):
        q = query[..., i : i + block_size, :].to(work) / d**0.5
        n = q.size(-2)
        m = torch.full_like(q[..., :1], float("-inf"))
        l = torch.zeros_like(m)
        acc = torch.zeros(*q.shape[:-1], value.size(-1), dtype=work, device=q.device)
        for j in range(0, i + n if is_causal else Tk, block_size):
            k = key[..., j : j + block_size, :].to(work)
            v = value[..., j : j + block_size, :].to(work)
            s = q @ k.mT
            if is_causal:
                row = torch.arange(i, i + n, device=q.device)
                col = torch.arange(j, j + k.size(-2), device=q.device)
                s = s.masked_fill(row[:, None] < col[None, :], float("-inf"))
            new_m = torch.maximum(m, s.amax(-1, keepdim=True))
            p = (s - new_m).exp()
            old = (m - new_m).exp()
            l = l * old + p.sum(-1, keepdim=True)
            acc = acc * old + p @ v
            m = new_m
        out.append(acc / l)
    return torch.cat(out, -2).to(query.dtype)
