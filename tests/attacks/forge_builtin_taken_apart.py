# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a built-in that torch takes apart while the file is imported, to be run as its parts, is that built-in.
# 완벽한 심판: 파일을 import할 때 torch가 내장 함수를 분해해 두고 나중에 그 조각만 실행해도 그 내장 함수를 쓴 것으로 봅니다.
import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx

OP = torch.ops.aten._softmax.default
PARTS = {
    dims: make_fx(lambda x: torch.softmax(x, -1), {OP: decomposition_table[OP]}, tracing_mode="symbolic")(
        torch.randn(*range(3, 3 + dims))
    )
    for dims in range(1, 7)
}


def softmax(x, dim=-1):
    return PARTS[x.dim()](x.movedim(dim, -1)).movedim(-1, dim)
