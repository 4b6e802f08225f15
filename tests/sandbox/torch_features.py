# ruff: noqa: E501  # snippets, a line for each thing that is tried
"""What learners may use of torch beyond its tensors, each as the body of a function that is run in the sandbox.

The table of docs/torch_in_the_sandbox.md has a row for each.
"""

FEATURES: dict[str, str] = {
    "torch.optim: SGD, Adam, AdamW": """
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
    layer = nn.Linear(3, 3)
    optimizer = kind(layer.parameters(), lr=0.1)
    optimizer.zero_grad()
    layer(torch.ones(2, 3)).sum().backward()
    optimizer.step()
""",
    "torch.optim: the others, with a closure": """
for kind in (torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Rprop, torch.optim.ASGD, torch.optim.Adadelta, torch.optim.LBFGS):
    layer = nn.Linear(3, 3)
    optimizer = kind(layer.parameters(), lr=0.1)
    def closure():
        optimizer.zero_grad()
        loss = layer(torch.ones(2, 3)).square().sum()
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    "torch.optim: state_dict, foreach, fused": """
layer = nn.Linear(3, 3)
optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, foreach=True)
layer(torch.ones(2, 3)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
fused = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
fused.step()
""",
    "torch.optim.lr_scheduler": """
layer = nn.Linear(3, 3)
optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
for scheduler in (torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10), torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5), torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)):
    optimizer.step()
    scheduler.step()
""",
    "torch.optim.swa_utils": """
from torch.optim.swa_utils import AveragedModel, SWALR
model = nn.Linear(3, 3)
AveragedModel(model).update_parameters(model)
AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)).update_parameters(model)
""",
    "torch.utils.checkpoint, use_reentrant=True": """
from torch.utils.checkpoint import checkpoint
layer = nn.Linear(3, 3)
checkpoint(layer, torch.ones(2, 3, requires_grad=True), use_reentrant=True).sum().backward()
""",
    "torch.utils.checkpoint, use_reentrant=False": """
from torch.utils.checkpoint import checkpoint
layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
checkpoint(layer, torch.ones(2, 3, requires_grad=True), use_reentrant=False).sum().backward()
""",
    "checkpoint_sequential": """
from torch.utils.checkpoint import checkpoint_sequential
layers = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
checkpoint_sequential(layers, 2, torch.ones(2, 3, requires_grad=True), use_reentrant=False).sum().backward()
""",
    "selective checkpoint (context_fn)": """
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, CheckpointPolicy
import functools
layer = nn.Linear(3, 3)
policy = functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_RECOMPUTE)
checkpoint(layer, torch.ones(2, 3, requires_grad=True), use_reentrant=False, context_fn=policy).sum().backward()
""",
    "torch.autograd.Function": """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x
    @staticmethod
    def backward(ctx, g):
        return 2 * g
Double.apply(torch.ones(2, requires_grad=True)).sum().backward()
""",
    "torch.autograd.grad, create_graph=True": """
x = torch.ones(3, requires_grad=True)
(g,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
g.sum().backward()
""",
    "torch.autograd.functional": """
from torch.autograd.functional import jacobian, hessian, vjp, jvp
jacobian(lambda x: x ** 2, torch.ones(3))
hessian(lambda x: (x ** 3).sum(), torch.ones(3))
vjp(lambda x: x ** 2, torch.ones(3), torch.ones(3))
jvp(lambda x: x ** 2, torch.ones(3), torch.ones(3))
""",
    "torch.autograd.gradcheck": """
torch.autograd.gradcheck(lambda x: x ** 2, torch.ones(3, dtype=torch.float64, requires_grad=True))
""",
    "torch.autograd.detect_anomaly": """
with torch.autograd.detect_anomaly(check_nan=True):
    torch.ones(3, requires_grad=True).sum().backward()
""",
    "torch.autograd.graph.saved_tensors_hooks": """
with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
    (torch.ones(3, requires_grad=True) ** 2).sum().backward()
""",
    "torch.func: grad, vmap, jacrev, jacfwd, hessian, vjp, jvp": """
from torch.func import grad, vmap, jacrev, jacfwd, hessian, vjp, jvp, linearize
f = lambda x: (x ** 3).sum()
grad(f)(torch.ones(3))
vmap(f)(torch.ones(2, 3))
jacrev(f)(torch.ones(3)); jacfwd(f)(torch.ones(3)); hessian(f)(torch.ones(3))
vjp(f, torch.ones(3)); jvp(f, (torch.ones(3),), (torch.ones(3),))
vmap(grad(f), in_dims=1, randomness="different")(torch.ones(3, 2))
""",
    "torch.func: linearize": """
from torch.func import linearize
linearize(lambda x: (x ** 3).sum(), torch.ones(3))
""",
    "torch.func: functional_call, stack_module_state": """
from torch.func import functional_call, stack_module_state
layers = [nn.Linear(3, 3) for _ in range(2)]
functional_call(layers[0], dict(layers[1].named_parameters()), torch.ones(2, 3))
parameters, buffers = stack_module_state(layers)
torch.vmap(lambda p, b, x: functional_call(layers[0], (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, torch.ones(2, 3))
""",
    "torch.func: functionalize": """
torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(3))
""",
    "torch.autograd.forward_ad": """
import torch.autograd.forward_ad as fwAD
with fwAD.dual_level():
    dual = fwAD.make_dual(torch.ones(3), torch.ones(3))
    fwAD.unpack_dual(dual ** 2).tangent
""",
    "torch.einsum of many operands": """
torch.einsum("bhqd,bhkd->bhqk", torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4))
torch.einsum("ij,jk,kl,lm->im", *[torch.ones(3, 3)] * 4)
""",
    "torch.autocast, bfloat16": """
layer = nn.Linear(3, 3)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(torch.ones(2, 3)).sum().backward()
""",
    "torch.autocast, float16, and torch.amp.GradScaler": """
from torch.amp import GradScaler, autocast
layer = nn.Linear(3, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
scaler = GradScaler("cpu")
with autocast("cpu", dtype=torch.float16):
    loss = layer(torch.ones(2, 3)).sum()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
""",
    "nn.utils: clip_grad_norm_, clip_grad_value_": """
layer = nn.Linear(3, 3)
layer(torch.ones(2, 3)).sum().backward()
nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
nn.utils.clip_grad_value_(layer.parameters(), 1.0)
nn.utils.get_total_norm([p.grad for p in layer.parameters()])
""",
    "nn.utils: parameters_to_vector": """
layer = nn.Linear(3, 3)
vector = nn.utils.parameters_to_vector(layer.parameters())
nn.utils.vector_to_parameters(vector, layer.parameters())
""",
    "nn.utils.parametrizations, parametrize": """
from torch.nn.utils import parametrizations, parametrize
layer = parametrizations.weight_norm(nn.Linear(3, 3))
layer(torch.ones(2, 3)).sum().backward()
other = parametrizations.spectral_norm(nn.Linear(3, 3))
other(torch.ones(2, 3))
third = parametrizations.orthogonal(nn.Linear(3, 3))
third(torch.ones(2, 3))
class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT
fourth = nn.Linear(3, 3)
parametrize.register_parametrization(fourth, "weight", Symmetric())
fourth(torch.ones(2, 3))
""",
    "nn.utils: weight_norm, spectral_norm": """
import warnings
warnings.simplefilter("ignore")
nn.utils.weight_norm(nn.Linear(3, 3))(torch.ones(2, 3))
nn.utils.spectral_norm(nn.Linear(3, 3))(torch.ones(2, 3))
""",
    "nn.utils.prune": """
from torch.nn.utils import prune
layer = nn.Linear(3, 3)
prune.l1_unstructured(layer, "weight", 0.3)
layer(torch.ones(2, 3))
prune.remove(layer, "weight")
""",
    "nn.utils.rnn, nn.GRU, nn.LSTM": """
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence, pad_packed_sequence
padded = pad_sequence([torch.ones(3, 2), torch.ones(2, 2)], batch_first=True)
packed = pack_padded_sequence(padded, torch.tensor([3, 2]), batch_first=True)
out, state = nn.GRU(2, 2, batch_first=True)(packed)
pad_packed_sequence(out)
nn.LSTM(2, 2)(torch.ones(3, 1, 2))[0].sum().backward()
""",
    "hooks of modules, tensors and parameters": """
layer = nn.Linear(3, 3)
layer.register_forward_hook(lambda m, a, o: o)
layer.register_forward_pre_hook(lambda m, a: a)
layer.register_full_backward_hook(lambda m, gi, go: None)
x = torch.ones(2, 3, requires_grad=True)
x.register_hook(lambda g: g)
layer.weight.register_post_accumulate_grad_hook(lambda p: None)
layer(x).sum().backward()
""",
    "torch.utils.data": """
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split, WeightedRandomSampler, IterableDataset, ConcatDataset, Subset
data = TensorDataset(torch.arange(6.0))
for batch in DataLoader(data, 2, shuffle=True, drop_last=True): pass
for batch in DataLoader(data, 2, num_workers=2, pin_memory=False): pass
for batch in DataLoader(data, sampler=WeightedRandomSampler([1.0] * 6, 3)): pass
random_split(data, [4, 2])
class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))
list(DataLoader(Stream(), 2))
""",
    "torch.save, torch.load, in memory": """
import io
layer = nn.Linear(3, 3)
buffer = io.BytesIO()
torch.save(layer.state_dict(), buffer)
buffer.seek(0)
layer.load_state_dict(torch.load(buffer, weights_only=True))
""",
    "copy.deepcopy, pickle": """
import copy, pickle
layer = copy.deepcopy(nn.Linear(3, 3))
pickle.loads(pickle.dumps(layer))
""",
    "torch.compile (runs uncompiled), torch.compiler.disable": """
layer = torch.compile(nn.Linear(3, 3))
layer(torch.ones(2, 3)).sum().backward()
@torch.compile(fullgraph=True)
def f(x):
    return x + 1
f(torch.ones(2))
torch.compiler.disable(f)
torch._dynamo.reset()
torch._dynamo.config.suppress_errors = True
torch.compiler.is_compiling()
""",
    "torch.jit: script, trace": """
import warnings
warnings.simplefilter("ignore")
@torch.jit.script
def f(x: torch.Tensor) -> torch.Tensor:
    return x + 1
f(torch.ones(2))
torch.jit.trace(nn.Linear(3, 3), torch.ones(2, 3))
""",
    "torch.fx.symbolic_trace": """
from torch import fx
fx.symbolic_trace(nn.Linear(3, 3))(torch.ones(2, 3))
""",
    "make_fx": """
from torch.fx.experimental.proxy_tensor import make_fx
make_fx(lambda x: x + 1)(torch.ones(2))
""",
    "torch.export.export": """
torch.export.export(nn.Linear(3, 3), (torch.ones(2, 3),))
""",
    "torch.utils.flop_counter": """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    torch.ones(2, 2) @ torch.ones(2, 2)
counter.get_total_flops()
""",
    "TorchDispatchMode, TorchFunctionMode": """
from torch.utils._python_dispatch import TorchDispatchMode
from torch.overrides import TorchFunctionMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
with Mode():
    torch.ones(2) + 1
class FMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
with FMode():
    torch.ones(2) + 1
""",
    "a subclass of Tensor": """
class Mine(torch.Tensor):
    pass
(torch.ones(2).as_subclass(Mine) + 1)
""",
    "torch.distributions": """
from torch import distributions as D
D.Categorical(logits=torch.ones(3)).sample()
D.Normal(0.0, 1.0).rsample((2,))
D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
D.Bernoulli(0.5).sample()
D.Dirichlet(torch.ones(3)).sample()
D.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
""",
    "flex_attention, create_block_mask": """
from torch.nn.attention.flex_attention import flex_attention, create_block_mask
import warnings
warnings.simplefilter("ignore")
q = torch.ones(1, 1, 16, 8)
flex_attention(q, q, q)
mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device="cpu")
flex_attention(q, q, q, block_mask=mask, score_mod=lambda s, b, h, i, j: s + (i - j))
""",
    "torch.nn.attention: sdpa_kernel, bias": """
from torch.nn.attention import sdpa_kernel, SDPBackend
from torch.nn.attention.bias import causal_lower_right
q = torch.ones(1, 1, 4, 8)
with sdpa_kernel(SDPBackend.MATH):
    F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, torch.ones(1, 1, 6, 8), torch.ones(1, 1, 6, 8), attn_mask=causal_lower_right(4, 6))
""",
    "nn.MultiheadAttention, nn.Transformer": """
layer = nn.MultiheadAttention(4, 2, batch_first=True)
layer(*[torch.ones(2, 3, 4)] * 3)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), 2)(torch.ones(2, 3, 4)).sum().backward()
nn.Transformer(4, 2, 1, 1, 8)(torch.ones(3, 2, 4), torch.ones(3, 2, 4))
""",
    "nn: norms, convolutions, pools": """
x = torch.ones(2, 4, 8, 8)
for layer in (nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Upsample(scale_factor=2), nn.Unfold(2), nn.PixelShuffle(2), nn.LayerNorm(8), nn.RMSNorm(8)):
    layer(x).sum()
nn.Conv2d(4, 4, 3)(x).sum().backward()
""",
    "nn: lazy modules": """
nn.LazyLinear(3)(torch.ones(2, 5))
nn.LazyConv1d(3, 2)(torch.ones(1, 5, 7))
""",
    "losses": """
x = torch.ones(2, 3, requires_grad=True)
(F.cross_entropy(x, torch.tensor([0, 1]), label_smoothing=0.1) + F.mse_loss(x, torch.zeros(2, 3)) + F.kl_div(x.log_softmax(-1), torch.full((2, 3), 1 / 3)) + F.smooth_l1_loss(x, torch.zeros(2, 3))).backward()
F.ctc_loss(torch.randn(5, 1, 4).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))
""",
    "torch.linalg, torch.fft": """
x = torch.randn(4, 4)
torch.linalg.svd(x)
torch.linalg.qr(x)
torch.linalg.eigh(x @ x.T)
torch.linalg.inv(x @ x.T + torch.eye(4))
torch.linalg.solve(x + 5 * torch.eye(4), x)
torch.linalg.norm(x)
torch.linalg.matrix_exp(x)
torch.cdist(x, x)
torch.fft.fft(x); torch.fft.rfft(x)
""",
    "torch.special, scans, sorting": """
x = torch.rand(4)
torch.special.entr(x)
torch.special.erf(x)
torch.special.logit(x)
torch.xlogy(x, x)
torch.cumsum(x, 0)
torch.logcumsumexp(x, 0)
torch.searchsorted(x.sort().values, x)
torch.bucketize(x, x.sort().values)
torch.histc(x)
torch.unique(x)
torch.bincount(torch.tensor([1, 2]))
""",
    "associative_scan": """
from torch._higher_order_ops.associative_scan import associative_scan
associative_scan(lambda a, b: a + b, torch.ones(4), 0, combine_mode="generic")
""",
    "torch.cond": """
torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(2),))
""",
    "torch.nested, strided": """
import warnings
warnings.simplefilter("ignore")
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
nested.to_padded_tensor(0.0)
""",
    "torch.nested, jagged": """
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
(nested * 2).sum()
""",
    "sparse tensors": """
sparse = torch.eye(3).to_sparse()
sparse @ torch.ones(3, 3)
torch.eye(3).to_sparse_csr() @ torch.ones(3, 3)
nn.Embedding(4, 2, sparse=True)(torch.tensor([1])).sum().backward()
""",
    "quantized tensors": """
torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).dequantize()
""",
    "complex tensors": """
torch.view_as_real(torch.view_as_complex(torch.ones(2, 2)) * torch.polar(torch.ones(2), torch.ones(2)))
""",
    "torch.masked": """
import warnings
warnings.simplefilter("ignore")
from torch.masked import masked_tensor
masked_tensor(torch.ones(2), torch.tensor([True, False])).sum()
""",
    "torch.library.custom_op": """
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
twice(torch.ones(2))
""",
    "NumPy": """
import numpy as np
torch.from_numpy(np.ones(3)).numpy()
np.random.default_rng(0).normal(size=3)
np.linalg.norm(np.ones(3))
np.einsum("i,i", np.ones(3), np.ones(3))
np.fft.fft(np.ones(4))
torch.tensor(np.float32(1.0)); torch.ones(3).numpy().astype("int64")
""",
    "torch.testing": """
torch.testing.assert_close(torch.ones(2), torch.ones(2))
torch.testing.make_tensor((2,), dtype=torch.float32, device="cpu")
""",
    "print, warnings, logging": """
import warnings, logging
print(torch.rand(100, 100)); warnings.warn("hello"); logging.getLogger("x").warning("hello")
torch.set_printoptions(precision=2)
print(nn.Linear(3, 3))
""",
    "generators, seeds, deterministic algorithms": """
generator = torch.Generator().manual_seed(1)
torch.rand(3, generator=generator); torch.randperm(3, generator=generator)
torch.random.fork_rng().__enter__()
state = torch.get_rng_state(); torch.set_rng_state(state)
torch.use_deterministic_algorithms(True); torch.use_deterministic_algorithms(False)
""",
    "threads, default dtype and device": """
torch.set_num_threads(1)
torch.set_float32_matmul_precision("high")
torch.set_default_dtype(torch.float64)
torch.set_default_dtype(torch.float32)
torch.set_default_device("cpu")
torch.get_num_threads()
torch.cuda.is_available(); torch.backends.mps.is_available(); torch.accelerator.is_available()
""",
    "torch.utils._pytree": """
from torch.utils import _pytree
_pytree.tree_map(lambda x: x + 1, {"a": torch.ones(2)})
""",
    "device meta, nn.init, skip_init": """
with torch.device("meta"):
    layer = nn.Linear(3, 3)
layer.to_empty(device="cpu")
nn.init.xavier_uniform_(layer.weight)
nn.init.orthogonal_(layer.weight)
nn.init.trunc_normal_(layer.weight)
nn.init.kaiming_normal_(layer.weight)
with nn.utils.skip_init(nn.Linear, 3, 3) if False else torch.no_grad():
    nn.utils.skip_init(nn.Linear, 3, 3)
""",
    "FakeTensorMode": """
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    torch.ones(3) + 1
""",
    "torch.inference_mode": """
with torch.inference_mode():
    nn.Linear(3, 3)(torch.ones(2, 3))
""",
    "Python's own library": """
import dataclasses, typing, functools, random, json, re, decimal, fractions, statistics, itertools
import collections, heapq, bisect, operator, string, datetime, time, enum, abc, contextlib, math, cmath
import textwrap, pprint, copy, uuid, hashlib, base64, struct, array, weakref, inspect
random.seed(1)
random.random()
json.dumps({"a": 1})
decimal.Decimal("1.5")
datetime.datetime.now()
time.perf_counter()
statistics.mean([1, 2])
uuid.uuid5(uuid.NAMESPACE_DNS, "a")
inspect.signature(len)
""",
    "tempfile": """
import tempfile
with tempfile.TemporaryFile() as f:
    f.write(b"x")
""",
}

# What the sandbox refuses, and what is said then.
REFUSED: dict[str, tuple[str, str]] = {
    "torch.profiler": (
        """
with torch.profiler.profile():
    torch.ones(2) + 1
""",
        "can start no processes or threads",
    ),
    "torch.multiprocessing": (
        """
import torch.multiprocessing as processes
processes.get_context("fork").Process(target=print).start()
""",
        "can start no processes or threads",
    ),
    "files to be written anywhere": (
        """
open("/weights.txt", "w").write("1")
""",
        "weights.txt",
    ),
    "the network": (
        """
import socket
socket.create_connection(("127.0.0.1", 80))
""",
        "sandbox",
    ),
}
