"""What is shown of a learner's code while a reference stands beside it.

Any word or number of it could tell what stands in that reference. So no value is shown; what is shown is which checks
fail, which known mistake it is, and of an error what can hold next to nothing: a usual sentence of Python or torch
whose blanks are filled with names from the learner's own file and a few digits, and a line of that file.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Set
from functools import cache

from grader.base.language import gettext as _
from grader.base.results import CheckResult
from grader.checks.trial import Verdict

MOST_TOLD = 16  # characters in a sentence's blanks that do not come from the learner's own file
MOST = 72  # of all blanks, names from the learner's own file included
LONGEST_WORD = 400  # characters: no usual sentence is longer
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


def silence(results: list[CheckResult], verdicts: list[Verdict], own: str) -> None:
    """Takes every value out of the messages of checks that were not passed; `own` is the text of the learner's file."""
    for result, verdict in zip(results, verdicts, strict=True):
        if verdict.status == "pass":
            continue
        found = verdict.message.strip()
        named = result.message.removeprefix(verdict.message).strip() if result.misconception else ""
        verdict.message = result.message = named or _untold(verdict, own)
        result.parting = None
        if verdict.status == "error":
            result.message = found.partition("\n")[0]


def _untold(verdict: Verdict, own: str) -> str:
    if verdict.off_limits:
        said = _("A built-in that is off limits was used.")
    elif verdict.status == "timeout":
        said = _("The code did not answer in time.")
    elif verdict.status == "todo":
        said = _("It is not written yet.")
    elif verdict.by_code:
        said = "\n".join([_("The code raised an error."), *_raised(verdict, own)])
    else:
        said = _("The code gave another answer than expected.")
    hidden = _("Its values are not shown, since the reference of an earlier step was in its process.")
    return f"{said}\n{hidden}" if "\n" in said else f"{said} {hidden}"


def _raised(verdict: Verdict, own: str) -> Iterator[str]:
    """What may be told of the error: its type and sentence, and the line of the learner's own file."""
    for exchange in reversed(verdict.exchanges):
        raised = exchange.outcome.raised if exchange.outcome else None
        if raised is not None:
            if raised.type in dir(builtins):
                yield f"{raised.type}: {raised.message}" if may_be_shown(raised.message, own) else raised.type
            if raised.source.strip() and raised.source.strip() in own:
                yield f"    {raised.source.strip()}"
            return


def may_be_shown(word: str, own: str) -> bool:
    """Whether a sentence tells next to nothing that its author, whose file is `own`, could not know."""
    if word in own:
        return True
    if len(word) > LONGEST_WORD:
        return False
    match = NAMED.fullmatch(word) or _usual().fullmatch(word)
    if match is None:
        return False
    filled = " ".join(part for part in match.groups() if part)
    return len(filled) <= MOST and _told(filled, set(NAMES.findall(own))) <= MOST_TOLD


def _told(text: str, known: Set[str]) -> int:
    """The characters of a text that are not of known names: other names, numbers, signs."""
    return len("".join(NAMES.sub(lambda name: "" if name[0] in known else name[0], text).split()))


@cache
def _usual() -> re.Pattern[str]:
    patterns = (re.escape(sentence).replace(HIDDEN, r"([^\n]{0,80}?)") for sentence in USUAL)
    return re.compile("|".join(patterns))
