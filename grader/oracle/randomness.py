"""Statistics of a random answer that don't depend on the draw: they tell two kinds of dropout apart, not two draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calls.call import Outcome
from grader.calls.values import leaves, numbers_of

SAMPLE = 96  # elements of a tensor that are sampled, evenly spaced
FEWEST = 2  # elements kept in both, so that their values can be compared
NEAR = 4e-3  # relative: the sample is kept in half precision
# Two-sided normal quantile of a false-alarm rate of 1e-7: so rarely are two draws of one rate taken for two rates.
ALARM_DEVIATIONS = 5.4
FEWEST_ROWS = 200  # sampled tokens that tell how often each is sampled
LARGEST_TOKEN = 1 << 24
MOST_PAIRS = 64
RATE_DEVIATIONS = 4.0
# Whether elements are dropped together shows in how much their number varies from slice to slice. A variance estimated
# from m numbers has a relative error of sqrt(2 / m); up to this many times that, and a little, counts as the same.
MANNER_DEVIATIONS = 4.0
MANNER_ROOM = 0.3
STILL = 0.1  # variation below this share of the expected one counts as none
# Zeros more clustered than this may be there on purpose, as under a mask: such answers are not compared.
ON_PURPOSE = 3.0
OPPOSITE = 0.4  # with a larger share of zeros, two draws may have no kept element in common
# If there are more ways than this to choose the dropped elements, dropping exactly the smallest is no coincidence.
FEWEST_ORDERS = 10**7
# Each answer of a student is compared with those of many misconceptions.
MOST_PROFILES = 256
_PROFILES: dict[int, tuple[Outcome, list[bytes]]] = {}


def profile(outcome: Outcome) -> list[bytes]:
    """The statistics of a random answer, packed in half precision, for each floating tensor: the share of zeros, how it
    varies along each dimension, and a sample of the values."""
    cached = _PROFILES.get(id(outcome))
    if cached is None or cached[0] is not outcome:
        if len(_PROFILES) == MOST_PROFILES:
            _PROFILES.clear()
        cached = outcome, [_profile(tensor) for tensor in _tensors([outcome.value, outcome.gradients])]
        _PROFILES[id(outcome)] = cached
    return cached[1]


def tells(profile: Sequence[bytes]) -> bool:
    """True if the answer has zeros, as dropout makes: values without a zero can only be compared exactly."""
    return any(0 < _unpacked(one)[0] < 1 for one in profile)


def may_miss(profile: Sequence[bytes]) -> bool:
    """Whether another draw of the same distribution may look different: one of few elements, or a complementary one
    (one keeps draws above p, the other draws below 1 - p), which keeps none of the same elements."""
    return any(OPPOSITE < share < 1 or len(sample) < SAMPLE for share, _varies, sample in map(_unpacked, profile))


def alike(mine: Sequence[bytes], theirs: Sequence[bytes], shapes: list[tuple[int, ...]]) -> bool:
    """Whether two profiles of answers, with tensors of these shapes, are two draws of one distribution."""
    return tells(mine) and len(mine) == len(theirs) == len(shapes) and all(map(_alike, mine, theirs, shapes))


def pairs(outcome: Outcome) -> list[bytes]:
    """The counts of pairs of whole numbers at the end of the rows of a tensor (..., T), packed, for each tensor of the
    answer with enough rows and few different pairs. In sampled tokens the rates don't depend on the draw."""
    counted = []
    for tensor in _tokens(outcome):
        rows = tensor.reshape(-1, tensor.shape[-1])[:, -2:]
        if len(rows) >= FEWEST_ROWS and int(rows.min()) >= 0 and int(rows.max()) < LARGEST_TOKEN:
            # As one number a pair is sorted ten times as fast.
            both, counts = (rows[:, 0] * LARGEST_TOKEN + rows[:, 1]).unique(return_counts=True)
            distinct = torch.stack([both // LARGEST_TOKEN, both % LARGEST_TOKEN], 1)
            if len(distinct) <= MOST_PAIRS:
                counted.append(torch.cat([distinct, counts[:, None]], 1).numpy().tobytes())
    return counted


def has_tokens(outcome: Outcome) -> bool:
    """Whether the answer holds rows of whole numbers, which may have been sampled."""
    return bool(_tokens(outcome))


def _tokens(outcome: Outcome) -> list[Tensor]:
    """The answer's tensors of whole numbers with rows (two dimensions or more)."""
    numbers = (numbers_of(leaf) for leaf in leaves(outcome.value))
    return [
        tensor
        for tensor in numbers
        if tensor is not None and tensor.dtype == torch.int64 and tensor.dim() > 1 and tensor.shape[-1] > 1
        if not tensor.is_meta
    ]


def pairs_alike(mine: Sequence[bytes], theirs: Sequence[bytes]) -> bool:
    """Whether two results of `pairs` are those of two draws from one distribution after each number."""
    return bool(mine) and len(mine) == len(theirs) and all(map(_same_rates, mine, theirs))


def _same_rates(mine: bytes, theirs: bytes) -> bool:
    """True if two counts of pairs have the same rates, within what chance allows."""
    one, other = ({(a, b): n for a, b, n in _counted(packed)} for packed in (mine, theirs))
    totals = [Counter[int](), Counter[int]()]
    for counts, total in zip((one, other), totals, strict=True):
        for (before, _after), count in counts.items():
            total[before] += count
    if totals[0] != totals[1] or min(totals[0].values()) < FEWEST_ROWS // 2:
        return False
    for pair in one.keys() | other.keys():
        count, first, second = totals[0][pair[0]], one.get(pair, 0), other.get(pair, 0)
        rate = (first + second) / (2 * count)
        if abs(first - second) > RATE_DEVIATIONS * math.sqrt(2 * count * rate * (1 - rate)) + 1:
            return False
    return True


def _counted(packed: bytes) -> list[list[int]]:
    """The packed counts as triples of a number, the next one, and how often they follow each other."""
    counted: list[list[int]] = torch.frombuffer(bytearray(packed), dtype=torch.int64).view(-1, 3).tolist()
    return counted


def shapes(outcome: Outcome) -> list[tuple[int, ...]]:
    """The shape of each tensor that has a profile."""
    return [tuple(tensor.shape) for tensor in _tensors([outcome.value, outcome.gradients])]


def _tensors(value: Any) -> list[Tensor]:
    """The floating tensors of a value."""
    numbers = (numbers_of(leaf) for leaf in leaves(value))
    return [tensor for tensor in numbers if tensor is not None and tensor.is_floating_point()]


def _profile(tensor: Tensor) -> bytes:
    """The statistics of one tensor, packed: share of zeros, its spread along each dimension, a sample of values."""
    flat = tensor.detach().flatten().double()
    zeros = (tensor == 0).double()
    share = float(zeros.mean()) if len(flat) else 0.0
    variance = max(share * (1 - share), 1e-9)
    varies = [float(zeros.sum(dim).var(correction=0)) / (variance * tensor.shape[dim]) for dim in range(tensor.dim())]
    sample = flat[torch.linspace(0, len(flat) - 1, min(SAMPLE, len(flat))).long()] if len(flat) else flat
    numbers = torch.cat([torch.tensor([share, len(varies), *varies], dtype=torch.float64), sample])
    return bytes(numbers.half().numpy().tobytes())


def _alike(mine: bytes, theirs: bytes, shape: tuple[int, ...]) -> bool:
    """True if two profiles of tensors of this shape may be draws of one distribution."""
    (share, varies, sample), (other_share, other_varies, other_sample) = _unpacked(mine), _unpacked(theirs)
    if not len(varies) == len(other_varies) == len(shape) or len(sample) != len(other_sample):
        return False
    count = max(math.prod(shape), 1)
    together = max([1.0, *varies, *other_varies])  # elements dropped together count as one
    if together > ON_PURPOSE:
        return False
    mean = (share + other_share) / 2
    if abs(share - other_share) > ALARM_DEVIATIONS * math.sqrt(2 * mean * (1 - mean) * together / count) + 1e-3:
        return False
    for one, other, length in zip(varies, other_varies, shape, strict=True):
        room = MANNER_ROOM + MANNER_DEVIATIONS * math.sqrt(2 * length / count)
        if abs(math.log(max(one, STILL) / max(other, STILL))) > room:
            return False
    if _by_size(sample, other_sample) != _by_size(other_sample, sample):
        return False
    both = (sample != 0) & (other_sample != 0)
    if int(both.sum()) < min(FEWEST, len(sample)):
        return False
    return torch.allclose(sample[both], other_sample[both], rtol=NEAR, atol=1e-6, equal_nan=True)


def _by_size(sample: Tensor, other_sample: Tensor) -> bool:
    """Whether every element that the first sample dropped, with a value that the second shows, is smaller than all that
    were kept: a choice by value, which happens by chance in less than one of ten million samples."""
    dropped, survivors = other_sample[(sample == 0) & (other_sample != 0)].abs(), sample[sample != 0].abs()
    if not len(dropped) or not len(survivors) or math.comb(len(dropped) + len(survivors), len(dropped)) < FEWEST_ORDERS:
        return False
    return bool(dropped.max() <= survivors.min())


def _unpacked(packed: bytes) -> tuple[float, list[float], Tensor]:
    """A packed profile: the share of zeros, its spread along each dimension, the sample."""
    numbers = torch.frombuffer(bytearray(packed), dtype=torch.float16).double()
    dimensions = int(numbers[1])
    return float(numbers[0]), numbers[2 : 2 + dimensions].tolist(), numbers[2 + dimensions :]
