"""How far tokens lie apart."""

import torch
from torch import Tensor

Device = torch.device | str | None


def positions_apart(num_tokens: int, device: Device = None) -> Tensor:
    """How far each key (column) lies from each query (row), later ones positive: `(T, T)`."""
    positions = torch.arange(num_tokens, device=device)
    return positions - positions.unsqueeze(1)


def apart(weights: Tensor, offset: int = 0) -> Tensor:
    """i + offset - j for each query i and key j."""
    queries = torch.arange(weights.shape[-2], device=weights.device).unsqueeze(1) + offset
    return queries - torch.arange(weights.shape[-1], device=weights.device)
