"""The checks of step 15: what attention costs in bytes, operations and parameters."""

from collections.abc import Callable

from grader.checks.assertions import Answer, Draw, Implementation, _, exactly, must_raise, points
from grader.checks.regimes import NUMBERS

NAMES = (
    "attention_matrix_bytes", "attention_flops", "multi_head_attention_parameters", "gpt_parameters", "layer_costs",
    "kv_cache_bytes",
)  # fmt: skip
CALLS = dict.fromkeys(NAMES, NUMBERS)
GPT_2 = (50257, 1024, 12, 12, 768)


@points(0.5)
def test_matrix_bytes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The bytes of all scores, in every sequence, head and layer."""
    exactly(student.attention_matrix_bytes(1, 1, 6), 144)
    exactly(student.attention_matrix_bytes(2, 3, 5, 2, 7), 2 * 3 * 25 * 2 * 7)
    for _case in range(3):
        sizes = _sizes(draw, 4)
        exactly(student.attention_matrix_bytes(*sizes), reference.attention_matrix_bytes(*sizes))
        exactly(
            student.attention_matrix_bytes(*sizes[:3], num_layers=sizes[3], bytes_per_element=2),
            reference.attention_matrix_bytes(*sizes[:3], num_layers=sizes[3], bytes_per_element=2),
        )


@points(1)
def test_flops(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The operations of one layer: four projections, the scores, and the weighted sum."""
    exactly(student.attention_flops(1, 1, 2, 3), (144, 24, 24))  # 4 * 2 * 2 * 3 * 3 and twice 2 * 2 * 2 * 3
    exactly(student.attention_flops(1, 3, 2, 3), (144, 24, 24))  # more heads are narrower ones
    for _case in range(3):
        batch, heads, width = _sizes(draw, 3)
        tokens = 2 * draw.integer(40, 90) + 1
        call = (batch, heads, tokens, heads * width)
        exactly(student.attention_flops(*call), reference.attention_flops(*call))


@points(0.5)
def test_attention_parameters(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The parameters of step 8's attention, with and without the biases of query, key and value."""
    exactly(student.multi_head_attention_parameters(3, 2, 2), 24)  # 3 * 3 * 2 + 2 * 2 + 2
    exactly(student.multi_head_attention_parameters(3, 2, 1, qkv_bias=True), 30)
    for qkv_bias in (False, True):
        d_in, heads, width = _sizes(draw, 3)
        call = (d_in, heads * width, heads, qkv_bias)
        exactly(student.multi_head_attention_parameters(*call), reference.multi_head_attention_parameters(*call))


@points(1)
def test_gpt_parameters(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The parameters of step 12's GPT, those of GPT-2 among them, with and without biases."""
    exactly(student.gpt_parameters(5, 3, 1, 1, 2), 94)
    exactly(student.gpt_parameters(*GPT_2), 124_439_808)
    exactly(student.gpt_parameters(5, 3, 1, 1, 2, bias=False), 70)
    for bias in (True, False):
        vocabulary, block, layers, heads, width = _sizes(draw, 5)
        call = (vocabulary, block, layers, heads, heads * width, bias)
        exactly(student.gpt_parameters(*call), reference.gpt_parameters(*call))


@points(0.5)
def test_heads_divide_the_width(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Heads that do not divide the width are an error."""
    heads = draw.integer(3, 9)
    for width in (heads * draw.integer(2, 6) + 1, heads - 1):
        reason = _("a width of {width} with {heads} heads").format(width=width, heads=heads)
        calls: tuple[Callable[[], object], ...] = (
            lambda width=width: student.attention_flops(2, heads, 5, width),
            lambda width=width: student.multi_head_attention_parameters(6, width, heads),
            lambda width=width: student.gpt_parameters(11, 7, 2, heads, width),
        )
        for call in calls:
            must_raise(call, reason)
    # Only d_out is shared out among the heads: d_in need not be divisible, and the width may be smaller than T.
    call = (heads + 1, 2 * heads, heads)
    exactly(student.multi_head_attention_parameters(*call), reference.multi_head_attention_parameters(*call))


@points(1)
def test_layers_of_the_table(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The four rows of the table, for small and for fresh sizes; another name is an error."""
    for layer, options, row in (
        ("self-attention", {}, (5 * 5 * 2, 1, 1)),
        ("recurrent", {}, (5 * 2 * 2, 5, 5)),
        ("convolutional", {}, (3 * 5 * 2 * 2, 1, 2)),
        ("restricted", {"r": 2}, (2 * 5 * 2, 1, 3)),
    ):
        exactly(student.layer_costs(layer, 5, 2, **options), row)
        n, d, k, r = _sizes(draw, 4)
        for call in (
            (n, d, k, r),
            (d, n, k, r),
            (60 * n, d),
            (n, d, r, k),
            (1, d),
            (r * n, d, k, r),
            (r * n + 1, d, k, r),
        ):
            exactly(student.layer_costs(layer, *call), reference.layer_costs(layer, *call))
    must_raise(lambda: student.layer_costs("attention", 5, 2), _("a layer that is not in the table"))


@points(0.5)
def test_path_of_convolutions(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The path of dilated convolutions is exact next to the powers of the kernel's width."""
    for k in (2, 3, 5, 6, 7, 10, draw.integer(11, 40)):
        for power in range(1, 12 if k <= 10 else 6):
            for n in (k**power - 1, k**power, k**power + 1):
                exactly(student.layer_costs("convolutional", n, 1, k), reference.layer_costs("convolutional", n, 1, k))


@points(0.5)
def test_cache_bytes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The bytes of the keys and the values of every layer."""
    exactly(student.kv_cache_bytes(1, 3, 2, 1, 4), 96)  # 2 * 2 * 3 * 4 numbers of 2 bytes
    for _case in range(2):
        sizes = _sizes(draw, 5)
        exactly(student.kv_cache_bytes(*sizes), reference.kv_cache_bytes(*sizes))
        exactly(
            student.kv_cache_bytes(*sizes, bytes_per_element=1), reference.kv_cache_bytes(*sizes, bytes_per_element=1)
        )


@points(0.5)
def test_exact_integers(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Counts beyond 2**53, where floats skip numbers, are exact."""
    odd = [2 * draw.integer(450, 500) + 1 for _size in range(8)]
    million = 1_000_003 + 2 * draw.integer(0, 1000)
    for name, call in (
        ("attention_matrix_bytes", (odd[0], 11, million, 3, 13)),
        ("attention_flops", (odd[0], odd[1], million // 20 * 2 + 1, odd[1] * 23)),
        ("multi_head_attention_parameters", (million * 601, odd[0] * million, odd[0], True)),
        ("gpt_parameters", (million, odd[1], 100_003, odd[2], odd[2] * 401)),
        ("layer_costs", ("self-attention", million, odd[3] * 101)),
        ("layer_costs", ("recurrent", odd[4] * 101, million)),
        ("layer_costs", ("convolutional", odd[4] * 31, million, 3)),
        ("layer_costs", ("restricted", million, odd[5] * 1001, 3, odd[6] * 21)),
        ("layer_costs", ("restricted", 3 * (2**54 + 4 * odd[7]) + 1, 1, 3, 3)),
        ("layer_costs", ("convolutional", 3**37 + 1, 1)),
        ("kv_cache_bytes", (odd[0], million, odd[1], 131, 129, 5)),
    ):  # fmt: skip
        exactly(getattr(student, name)(*call), _of_range(getattr(reference, name)(*call)))


def _sizes(draw: Draw, count: int) -> list[int]:
    """Different odd sizes, in random order: a factor that is left out or taken twice shows."""
    order = draw.permutation(len(ODD_SIZES)).tolist()
    return [ODD_SIZES[place] for place in order[:count]]


ODD_SIZES = (3, 5, 7, 9, 11, 13)


def _of_range(answer: Answer) -> Answer:
    """The answer, of which at least one number must be above 2**53 and all below 2**63: more does not travel."""
    numbers = answer.value if isinstance(answer.value, tuple) else (answer.value,)
    assert all(isinstance(number, int) for number in numbers) and 2**53 < max(numbers) < 2**63, numbers
    return answer
