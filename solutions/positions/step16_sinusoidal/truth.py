"""The reference of step 16 is right: held against the tables of published models and a printed one."""

import math

import pytest
import torch
from torch.testing import assert_close

from solutions.positions.step16_sinusoidal.reference import PositionalEncoding, sinusoidal_encoding


def test_table_of_four_columns() -> None:
    """The worked example of textbooks: positions 0 to 3, four columns, base 100, to four digits."""
    printed = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8415, 0.5403, 0.0998, 0.9950],
        [0.9093, -0.4161, 0.1987, 0.9801],
        [0.1411, -0.9900, 0.2955, 0.9553],
    ]
    assert_close(sinusoidal_encoding(4, 4, base=100.0), torch.tensor(printed), atol=5e-5, rtol=0.0)


@pytest.mark.parametrize("width", (2, 6, 16, 64))
def test_distilbert_table(width: int) -> None:
    """DistilBERT's table, interleaved as here, made by NumPy in float64."""
    from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings

    theirs = torch.empty(5000, width)
    create_sinusoidal_embeddings(5000, width, theirs)
    assert_close(sinusoidal_encoding(5000, width), theirs, atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("width", (4, 7, 32))
def test_roformer_table(width: int) -> None:
    """RoFormer's table holds the sines first and then the cosines; an odd width has one sine more."""
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding

    halves = RoFormerSinusoidalPositionalEmbedding(600, width).create_weight()
    encoding = sinusoidal_encoding(600, width)
    assert_close(torch.cat([encoding[:, 0::2], encoding[:, 1::2]], dim=-1), halves, atol=1e-6, rtol=0.0)


def test_ctrl_table() -> None:
    """CTRL's table, in halves too, is computed in float32: it is off by what the contract grants."""
    from transformers.models.ctrl.modeling_ctrl import positional_encoding

    theirs = positional_encoding(4097, 24, torch.float32)
    encoding = sinusoidal_encoding(4097, 24)
    ours = torch.cat([encoding[:, 0::2], encoding[:, 1::2]], dim=-1)
    assert_close(ours[:64], theirs[:64], atol=1e-5, rtol=0.0)
    assert_close(ours, theirs, atol=1e-3, rtol=0.0)


@pytest.mark.parametrize(("width", "base"), ((1, 10000.0), (5, 10000.0), (6, 50.0)))
def test_python_numbers(width: int, base: float) -> None:
    """Every entry by Python's own `math`, at odd widths and other bases too."""
    encoding = sinusoidal_encoding(300, width, base)
    assert encoding.dtype == torch.float32
    for position in (0, 1, 63, 299):
        for column in range(width):
            angle = position / base ** ((column - column % 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert abs(float(encoding[position, column]) - expected) < 1e-6


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16, torch.float16), ids=str)
def test_module_adds_the_table(dtype: torch.dtype) -> None:
    """The module is the table added, in any dtype, before and after `.to(dtype)`, with nothing to learn."""
    module = PositionalEncoding(6, max_len=4097)
    table = sinusoidal_encoding(4097, 6).to(dtype)
    for moved in (module, module.to(dtype)):
        assert torch.equal(moved(torch.zeros(2, 4097, 6, dtype=dtype)), table.expand(2, -1, -1))
    assert list(module.parameters()) == []
    with pytest.raises(ValueError, match="max_len"):
        module(torch.zeros(4098, 6))
