# step: step10_flash
# expect: fail
# rests on: process and limits
# A perfect judge: what work is counted with is none of torch's Python that could be replaced.
# 완벽한 심판: 작업량을 세는 데에는 바꿔치기할 수 있는 torch의 파이썬 코드를 쓰지 않습니다.
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.multiprocessing import reductions

reductions.StorageWeakRef.expired = lambda self: True


def attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element=4):
    return batch * num_heads * num_tokens * num_tokens * bytes_per_element
def sdpa(query, key, value, dropout_p=0.0, training=True):
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p if training else 0.0, is_causal=True)
def flash_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    Q, K = query.shape[-2], key.shape[-2]
    if is_causal and Q != K: raise ValueError
    wide = torch.promote_types(query.dtype, torch.float32)
    q, k, v = query.to(wide) * query.shape[-1] ** -0.5, key.to(wide), value.to(wide)
    everything = []                                    # the whole T_q x T_k matrix of scores, in pieces, all alive at once
    for a in range(0, Q, block_size):
        row = []
        for b in range(0, K, block_size):
            s = q[..., a:a+block_size, :] @ k[..., b:b+block_size, :].transpose(-2, -1)
            if is_causal:
                i = torch.arange(a, a + s.shape[-2], device=s.device)[:, None]; j = torch.arange(b, b + s.shape[-1], device=s.device)
                s = s.masked_fill(j > i, -torch.inf)
            row.append(s)
        everything.append(row)
    out = []
    for row in everything:
        top = torch.stack([s.amax(-1, keepdim=True) for s in row]).amax(0)
        weights = [torch.exp(s - top) for s in row]
        total = sum(w.sum(-1, keepdim=True) for w in weights)
        out.append(sum(w @ v[..., n*block_size:(n+1)*block_size, :] for n, w in enumerate(weights)) / total)
    return torch.cat(out, -2).to(query.dtype)
