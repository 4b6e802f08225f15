# step: step10_flash
# expect: fail
# rests on: process and limits
# A perfect judge: which op runs and counts is asked of torch's C++, and not of the Python object of an op.
# 완벽한 심판: 어떤 op가 실행되고 세어지는지는 파이썬 객체가 아니라 torch의 C++에 묻습니다.
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
op = torch.ops.aten.sign.default
real, waiting = op._op, []
op._op = lambda *given: waiting.pop()() if waiting else real(*given)
def attention_matrix_bytes(batch, num_heads, num_tokens, bytes_per_element=4):
    return batch * num_heads * num_tokens * num_tokens * bytes_per_element
def sdpa(query, key, value, dropout_p=0.0, training=True):
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout_p if training else 0.0, is_causal=True)
def naive(query, key, value, is_causal):
    wide = torch.promote_types(query.dtype, torch.float32)
    s = query.to(wide) * query.shape[-1] ** -0.5 @ key.to(wide).transpose(-2, -1)
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], device=s.device, dtype=torch.bool).triu(1), -torch.inf)
    w = (s - s.amax(-1, keepdim=True)).exp()
    return (w @ value.to(wide) / w.sum(-1, keepdim=True)).to(query.dtype)
class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, c):
        ctx.save_for_backward(q, k, v); ctx.c = c
        waiting.append(lambda: naive(q, k, v, c))
        result = torch.sign(torch.ones(()))
        return waiting.pop()() if waiting else result
    @staticmethod
    def backward(ctx, g):
        q, k, v = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        found = []
        def work():
            with torch.enable_grad():
                found.extend(torch.autograd.grad(naive(q, k, v, ctx.c), (q, k, v), g))
            return torch.ones(())
        waiting.append(work)
        torch.sign(torch.ones(()))
        if waiting:
            waiting.pop()()
        return (*found, None)
def flash_attention(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    if is_causal and query.shape[-2] != key.shape[-2]: raise ValueError
    return Hidden.apply(query, key, value, is_causal)
