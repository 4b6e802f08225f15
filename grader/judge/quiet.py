"""What is shown of the words of a learner's code while a reference stands beside it.

Any of them could hold a line of that reference, so none is shown that could hold much: short words are, words that
stand in the learner's own file, and the usual sentences of Python and torch, where what they fill in is short. Whoever
made a mistake reads which one; whoever wants the reference gets hardly more out of a sentence than out of a short word.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache

from grader.base.results import CheckResult

SHORT = 24  # characters that tell nothing of a file, in a word or in what a sentence fills in
MOST = 3 * SHORT  # of both, names from the learner's own file included
LONGEST_WORD = 400  # characters: no usual sentence is longer
LONGEST = 2000  # characters of a message
HIDDEN = "…"
# What Python and torch say; `…` is what they fill in. Each is a whole message.
USUAL = (
    # Python
    "'…' object has no attribute '…'",
    "'…' object has no attribute '…'. Did you mean: '…'?",
    "type object '…' has no attribute '…'",
    "module '…' has no attribute '…'",
    "name '…' is not defined",
    "name '…' is not defined. Did you mean: '…'?",
    "cannot access local variable '…' where it is not associated with a value",
    "cannot import name '…' from '…' (unknown location)",
    "No module named '…'",
    "…() missing … required positional argument: '…'",
    "…() missing … required positional arguments: …",
    "…() missing … required keyword-only argument: …",
    "…() missing … required keyword-only arguments: …",
    "…() takes … positional argument but … were given",
    "…() takes … positional arguments but … were given",
    "…() takes … positional arguments but … was given",
    "…() takes from … to … positional arguments but … were given",
    "…() got an unexpected keyword argument '…'",
    "…() got multiple values for argument '…'",
    "unsupported operand type(s) for …: '…' and '…'",
    "'…' object is not callable",
    "'…' object is not iterable",
    "'…' object is not subscriptable",
    "'…' object does not support item assignment",
    "'…' object cannot be interpreted as an integer",
    "cannot unpack non-iterable … object",
    "not enough values to unpack (expected …, got …)",
    "too many values to unpack (expected …)",
    "tuple indices must be integers or slices, not …",
    "list indices must be integers or slices, not …",
    "integer division or modulo by zero",
    "maximum recursion depth exceeded",
    "maximum recursion depth exceeded …",
    # torch
    "The size of tensor a (…) must match the size of tensor b (…) at non-singleton dimension …",
    "The expanded size of the tensor (…) must match the existing size (…) at non-singleton dimension ….  "
    "Target sizes: […].  Tensor sizes: […]",
    "mat1 and mat2 shapes cannot be multiplied (… and …)",
    "mat1 and mat2 must have the same dtype, but got … and …",
    "expected m1 and m2 to have the same dtype, but got: … != …",
    "expected scalar type … but found …",
    "Expected size for first two dimensions of batch2 tensor to be: […] but got: […].",
    "size mismatch, got input (…), mat (…), vec (…)",
    "inconsistent tensor size, expected tensor […] and src […] to have the same number of elements, "
    "but got … and … elements respectively",
    "shape '…' is invalid for input of size …",
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    "contiguous subspaces). Use .reshape(...) instead.",
    "Dimension out of range (expected to be in range of […], but got …)",
    "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
    "of dimensions i.e. input.dim() = … is not equal to len(dims) = …",
    "index … is out of bounds for dimension … with size …",
    "index out of range in self",
    "Tensors must have same number of dimensions: got … and …",
    "Sizes of tensors must match except in dimension …. Expected size … but got size … for tensor number … in the "
    "list.",
    "split_with_sizes expects split_sizes to sum exactly to … (input tensor's size at dimension …), "
    "but got split_sizes=[…]",
    "einsum(): the number of subscripts in the equation (…) does not match the number of dimensions (…) for operand … "
    "and no ellipsis was given",
    "einsum(): operands do not broadcast with remapped shapes [original->remapped]: …",
    "a Tensor with … elements cannot be converted to Scalar",
    "Boolean value of Tensor with more than one value is ambiguous",
    "Boolean value of Tensor with no values is ambiguous",
    "only Tensors of floating point dtype can require gradients",
    "masked_fill only supports boolean masks, but got mask with dtype …",
    "masked_fill_ only supports boolean masks, but got mask with dtype …",
    "expected BoolTensor for mask",
    "element … of tensors does not require grad and does not have a grad_fn",
    "a leaf Variable that requires grad is being used in an in-place operation.",
    "Expected all tensors to be on the same device, but found at least two devices, … and …!",
    "cannot assign module before Module.__init__() call",
    "cannot assign parameters before Module.__init__() call",
    "cannot assign '…' as parameter '…' (torch.nn.Parameter or None expected)",
    "cannot assign '…' as child module '…' (torch.nn.Module or None expected)",
    "Given normalized_shape=[…], expected input with shape […], but got input of size[…]",
    "self must be a matrix",
    "mat2 must be a matrix, got …-D tensor",
    "softmax(): argument 'dim' (position …) must be int, not …",
)
NAMED = re.compile(r"([\w.<>]+)( \([\d, ]*\))?")  # a method, or a tensor with its shape
NAMES = re.compile(r"[^\W\d]\w*")


def silence(results: list[CheckResult], words: Set[str], own: str) -> None:
    """Takes out of messages the words of the learner's code that may not be shown; `own` is the text of their file."""
    for result in results:
        for word in sorted(words, key=len, reverse=True):
            if not may_be_shown(word, own):
                result.message = result.message.replace(word, HIDDEN)
        result.message = result.message[:LONGEST]


def may_be_shown(word: str, own: str) -> bool:
    """Whether a word tells nothing that its author, whose file is `own`, could not know."""
    if len(word) <= SHORT or word in own:
        return True
    if len(word) > LONGEST_WORD:
        return False
    match = NAMED.fullmatch(word) or _usual().fullmatch(word)
    if match is None:
        return False
    filled = " ".join(part for part in match.groups() if part)
    return len(filled) <= MOST and _told(filled, set(NAMES.findall(own))) <= SHORT


def _told(text: str, known: Set[str]) -> int:
    """The characters of a text that are not of known names: other names, numbers, signs."""
    return len("".join(NAMES.sub(lambda name: "" if name[0] in known else name[0], text).split()))


@cache
def _usual() -> re.Pattern[str]:
    patterns = (re.escape(sentence).replace(HIDDEN, r"([^\n]{0,80}?)") for sentence in USUAL)
    return re.compile("|".join(patterns))
