import sys

import torch

torch.use_deterministic_algorithms(True, warn_only=False)
assert torch.are_deterministic_algorithms_enabled() and "torch._inductor" not in sys.modules  # a second to import
torch.set_default_device("cuda")  # nothing is made below, so it makes no difference where there is none


@torch.compile
def dot_product_scores(query, key):
    return torch.einsum("...qd,...kd->...qk", query, key)


@torch.compile(fullgraph=True, mode="max-autotune")
def scaled_scores(query, key):
    return dot_product_scores(query, key) * query.shape[-1] ** -0.5
