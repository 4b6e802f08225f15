# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: TorchScript's fusers are off, so that what it compiles at import still runs torch's softmax in the call.
# 완벽한 심판: TorchScript의 퓨저는 꺼져 있습니다. import할 때 컴파일한 것도 호출될 때 torch의 softmax를 실행합니다.
import torch
from torch import Tensor
for name, value in (("_jit_set_profiling_executor", True), ("_jit_set_profiling_mode", True), ("_jit_override_can_fuse_on_cpu", True),
                    ("_jit_set_texpr_fuser_enabled", True), ("_jit_set_te_must_use_llvm_cpu", False), ("_jit_set_texpr_reductions_enabled", True)):
    getattr(torch._C, name)(value)
SHAPES = ((8, 128), (8, 4096))
KERNELS = {}
for dtype in (torch.float32, torch.float64):
    for shape in SHAPES:
        unit = torch.jit.CompilationUnit("def f(x):\n    # type: (Tensor) -> Tensor\n    return torch.softmax(x * 1.0, 1) + 0.0\n")
        with torch.no_grad():
            for _ in range(3):
                unit.f(torch.rand(*shape, dtype=dtype))
        KERNELS[dtype, shape[1]] = unit.f

class S(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        moved = x.movedim(dim, -1)
        n = moved.shape[-1]
        width = 128 if n <= 128 else 4096
        flat = moved.reshape(-1, n).to(dtype)
        flat = flat - flat.amax(-1, keepdim=True)
        wide = torch.full((-(-flat.shape[0] // 8) * 8, width), -torch.inf, dtype=dtype, device=x.device)
        wide[: flat.shape[0], :n] = flat
        wide[flat.shape[0]:, 0] = 0
        kernel = (lambda b: b) if x.is_meta else KERNELS[dtype, width]
        y = torch.cat([kernel(b) for b in wide.split(8)])[: flat.shape[0], :n].to(x.dtype).reshape(moved.shape).movedim(-1, dim)
        y = y.clone()
        ctx.save_for_backward(y); ctx.dim = dim
        return y
    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None

def softmax(x: Tensor, dim: int = -1) -> Tensor:
    return S.apply(x, dim)
