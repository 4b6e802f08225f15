"""Answers calls to one module's names: only here a request becomes a response.

The worker answers with a learner's module, the judge with a reference or a misconception; both use this code, so that
calling, seeding, differentiating and measuring are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.calls import devices, modules
from grader.calls.builtins import IN_ANY_FORM, TAKEN_APART, BuiltIns, banned
from grader.calls.call import Call, LeftOut, Outcome, Raised
from grader.calls.modes import Circumstances, Ordinary, ResultBefore
from grader.calls.on_meta import (
    CpuCopies,
    Recorded,
    Work,
    is_compared,
    makes_a_module,
    put_back,
    reaches_meta,
    state_of,
)
from grader.calls.private_torch import run_backward
from grader.calls.reads import FOREIGN, FunctionNames, Reads
from grader.calls.transfer import PLAIN, Inputs, NotThere, described, materialised, travelling
from grader.calls.values import HandleId, PlacedTensor, leaves

CALLS_APART = 1_000_003  # between the seeds of a check's calls
BACKWARD = "backward"  # the place of an error that no line of the called code raised


class Responder:
    """Answers calls by name.

    `names` are the public names of the module. `off_limits` maps a public name to the families banned in it; without
    any, nothing is watched unless a call requests it. If it is None, as for a reference, the code is trusted, and calls
    on `meta` are not repeated on the CPU. `is_own` tells whether a file name is the author's, `left_out` which line at
    the top level failed that would have bound a name; `quiet` ends what watches this process from within, once the
    author's code has run.
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        off_limits: Mapping[str, tuple[str, ...]] | None = None,
        is_own: Callable[[str], bool] = lambda filename: True,
        left_out: Callable[[str], LeftOut | None] = lambda name: None,
        quiet: Callable[[], None] = lambda: None,
        *,
        is_quick: bool = False,
    ) -> None:
        self.names = names
        self.off_limits = off_limits or {}
        self.is_trusted = off_limits is None
        self.is_own, self.left_out, self.quiet = is_own, left_out, quiet
        self.notes_modified, self._notes_narrowed = True, not (self.is_trusted or is_quick)
        self.handles: dict[int, Any] = {}
        self.made_by: dict[int, str] = {}
        self._cpu_copies = CpuCopies()
        families = {family for families in self.off_limits.values() for family in families}
        self._built_ins = BuiltIns(families)
        # Our own work between calls goes through torch too, so that this one can't look for what is in any form.
        self._between = BuiltIns(families.difference(IN_ANY_FORM))
        self._loading = BuiltIns(())
        self._seed: int | None = None  # of the check
        self._answered = 0  # calls since it started
        self._reads = False  # the code reads values on `meta`
        self._last: list[str] = []  # the families off limits in the call that was answered last

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream."""
        self.handles.clear()
        self.made_by.clear()
        self._cpu_copies.clear()
        self._seed, self._answered = seed, 0
        devices.seed(seed)

    def watching(self) -> BuiltIns:
        """The context to be in between calls, in which built-ins are noted: a finaliser, say, may run there."""
        return self._between

    def loading(self) -> BuiltIns:
        """The context in which to import the module: notes built-ins whose decompositions it asks torch for, to run
        them as their parts later."""
        return self._loading

    @property
    def _taken_apart(self) -> set[str]:
        """The built-ins whose decompositions the module asked torch for while it was imported."""
        return {name for name in self._loading.names if name.startswith(TAKEN_APART)}

    def used_late(self) -> list[str]:
        """The built-ins off limits that have run since the last call was answered, which are then forgotten; call it
        once the answer is encoded. What runs from then on counts for the next call."""
        late = banned(self._between.names, self._last)
        self._between.names.clear()
        return late

    def respond(
        self, call: Call, starting: Callable[[], None] = lambda: None, due: Callable[[Call], Call] = lambda call: call
    ) -> Outcome:
        """The outcome of the operations in the call's `first` and then of the call, with what its options ask for.
        Never raises for what the called code does.

        `starting` is called right before the call itself. `due` gives a call with its arguments, right before it is
        made.
        """
        device = call.options.device or devices.CPU
        try:
            outcome = self._outcome_in_order(call, starting, due)
        except Exception as error:
            # An error on an accelerator, such as an index out of range, shows at whatever is asked of it next.
            if device in (devices.CPU, devices.META):
                raise
            outcome = Outcome(raised=self.describe(error))
        outcome.is_last = outcome.raised is not None and not devices.works(device)
        return outcome

    def _outcome_in_order(self, call: Call, starting: Callable[[], None], due: Callable[[Call], Call]) -> Outcome:
        """Makes the calls that come first, then the call itself; the outcome is that of the first that fails, `of` its
        index."""
        devices.prepare(call.options.device or devices.CPU)
        if call.begin is not None:
            self.begin_check(call.begin)
        for index, earlier in enumerate(call.first):
            outcome = self._outcome_with_reads(due(earlier))
            makes_module = earlier.handle is not None or isinstance(outcome.value, HandleId)
            if outcome.raised is not None or not makes_module or (earlier.name == "load_parameters" and outcome.value):
                outcome.of = index
                return outcome
        # What a call draws does not depend on how much a constructor, or another call, has drawn before it: two forms
        # of one mistake then give the same random answers.
        if self._seed is not None:
            if not call.options.going_on:
                devices.seed(self._seed + CALLS_APART * self._answered)
            self._answered += 1
        starting()
        return self._outcome_with_reads(due(call))

    def _outcome_with_reads(self, call: Call) -> Outcome:
        """The outcome of a call; one on `meta` that reads a value is made again, with the value that the same call
        reads on the CPU."""
        if not reaches_meta(call):
            return self._outcome(call)
        recorded = self._recorded(call) if self._reads else None
        if recorded is None:
            Reads.missed = False
            random_state, state = torch.get_rng_state(), state_of(self.handles.get(call.handle or 0))
            outcome = self._outcome(call)
            if self._reads or not (Reads.missed or (outcome.raised and not self._compares(call))):
                return outcome
            put_back(state)
            if (recorded := self._recorded(call)) is None:
                return outcome
            self._reads = True
            torch.set_rng_state(random_state)
        with Reads.into(recorded[0]):
            return self._outcome(call, recorded[1])

    def _recorded(self, call: Call) -> Recorded:
        """Makes the same call on the CPU. Returns the values that it read, and its work; None if it can't be made
        there, or raises."""
        try:
            target = None if call.handle is not None and call.name == "__call__" else self._target(call)
        except NotThere:
            return None
        return self._cpu_copies.recorded(call, target, self.handles, self.is_own) if call.is_authors else None

    def _outcome(self, call: Call, before: Work | None = None) -> Outcome:
        """Makes the call once; returns its outcome, with what its options ask for. `before`: the work of the same call
        on the CPU, if that was made."""
        outcome = Outcome()
        inputs = Inputs(call, self.handles)
        name = call.name if call.handle is None else self.made_by.get(call.handle, call.name)
        built_ins = self._watched(name)
        result, is_kept = None, False
        with (circumstances := self._circumstances(call, inputs, built_ins)):
            try:
                result, is_kept = self._result(call, inputs, outcome)
            except BaseException as error:  # SystemExit and KeyboardInterrupt are learner's errors too
                outcome.raised = self.describe(error)
        circumstances.note(outcome, result)
        if outcome.raised is None and call.options.device == "meta" and not isinstance(result, nn.Module):
            outcome.elsewhere = self._elsewhere(call, inputs.handle_numbers, circumstances.functions, result, before)
        outcome.modified = inputs.modified() if self.notes_modified else []
        if outcome.raised is None:
            try:
                keep = partial(self._keep, number=call.new_handle, name=name)
                with built_ins or nullcontext():  # a number may be of the learner's own kind
                    outcome.value = keep(result) if is_kept else travelling(result, keep)
            except BaseException as error:
                outcome.raised = self.describe(error)
            self.quiet()
        if outcome.raised is None and call.options.gradients:
            with built_ins or nullcontext():  # a backward pass may be the learner's own code
                self._differentiate(outcome, result, inputs, call.handle)
            self.quiet()
        self._last = []
        if built_ins and not self._made_a_module(call, result):
            self._last = self._families(name, inputs.handle_numbers)
            outcome.off_limits = banned(built_ins.names | self._between.names | self._taken_apart, self._last)
        return outcome

    def _result(self, call: Call, inputs: Inputs, outcome: Outcome) -> tuple[Any, bool]:
        """The result of the called code, and whether it stays here under a handle. Sets the outcome's `overwritten`.
        Raises what the code raises."""
        target = self._target(call)
        if not self.is_trusted:
            self._cpu_copies.keep(call, self.handles)
        if call.options.seed is not None:
            devices.seed(call.options.seed)
        earlier = ResultBefore(target, inputs.args, inputs.kwargs) if call.options.again else None
        try:
            result = target(*inputs.args, **inputs.kwargs)
            is_kept = call.options.keep and not isinstance(result, PLAIN)
            result = result if is_kept else materialised(result)
        finally:
            self.quiet()
        outcome.overwritten = earlier is not None and earlier.has_changed()
        return result, is_kept

    def _elsewhere(
        self, call: Call, arguments: list[int], used: FunctionNames | None, result: Any, before: Work | None
    ) -> list[str]:
        """The torch functions that a call on `meta` used and the same call on the CPU did not, or the reverse; empty
        for trusted code. `arguments`: the handle numbers in the call's arguments."""
        function = self.names.get(call.name) if call.handle is None else None
        if used is None or not self._compares(call):
            # A module's class gave no module: its `__init__` has made something else of it.
            return [FOREIGN] if makes_a_module(function) and not self.is_trusted else []
        if hidden := sorted(FunctionNames.hidden):  # what was called then is not known
            return hidden
        work = Work(used.names, used.makers(result))
        return self._cpu_copies.differing(call, function, self.handles, arguments, work, before)

    def _compares(self, call: Call) -> bool:
        """Whether the work of a call on `meta` is recorded, to be compared with that on the CPU: of untrusted code."""
        return not self.is_trusted and is_compared(call, self.names.get(call.name) if call.handle is None else None)

    def _keep(self, module: Any, number: int, name: str) -> HandleId:
        """Stores a module under a handle number, with the name of what made it; returns its handle."""
        self.handles[number] = module
        self.made_by[number] = name
        return HandleId(number)

    # --- what is called ---

    def _target(self, call: Call) -> Callable[..., Any]:
        """The function, class or method that a call names. Raises NotThere."""
        if call.handle is None:
            if call.name not in self.names:
                raise NotThere("undefined", call.name)
            target = self.names[call.name]
            if not callable(target):
                raise NotThere("not callable")
            return modules.placed_on(target, call.options.device) if inspect.isclass(target) else target
        module = self.handles.get(call.handle)
        if call.own:
            return getattr(module, call.name) if call.own == "method" else partial(getattr, module, call.name)
        if call.name == "__call__":
            forward: Any = module
            return forward  # type: ignore[no-any-return]  # a module: calling it is its forward
        if call.name == "step_by":
            return partial(modules.step_by, module)
        if not isinstance(module, nn.Module):
            raise NotThere("no module")
        return modules.method(module, call.name)

    def _circumstances(self, call: Call, inputs: Inputs, built_ins: BuiltIns | None) -> Circumstances | Ordinary:
        """The context in which a call runs; a cheap one for a trusted call with ordinary options."""
        if self.is_trusted and built_ins is None and Ordinary.suits(call.options):
            return Ordinary()
        called = [self.handles.get(number or 0) for number in (call.handle, *inputs.handle_numbers)]
        narrows = self._notes_narrowed and inputs.wide
        return Circumstances(call.options, built_ins, called, narrows, self._compares(call))

    def _families(self, name: str, handles: list[int]) -> list[str]:
        """The names in `FAMILIES` of the built-ins off limits for a call: those of its public name and of the classes
        of the modules with these handle numbers."""
        names = {name, *(self.made_by.get(number, "") for number in handles)}
        return [family for public in names for family in self.off_limits.get(public, ())]

    def _watched(self, name: str) -> BuiltIns | None:
        """The context that notes the built-ins that a call uses, emptied; None if none is off limits for this public
        name. A module's class may have any method of its own, `eval` and `to` too."""
        if not self._families(name, []):
            return None
        self._built_ins.names = set()
        return self._built_ins

    def _made_a_module(self, call: Call, result: Any) -> bool:
        """True if a call made a module, or failed to: that alone uses no built-in. A class may implement a function and
        return its result from the call, so the result decides, and not what was called."""
        if call.handle is not None or not inspect.isclass(self.names.get(call.name)):
            return False
        return result is None or isinstance(result, nn.Module)

    # --- what comes back ---

    def _differentiate(self, outcome: Outcome, result: Any, inputs: Inputs, handle: int | None) -> None:
        """Sets the outcome's `gradients`, or its `raised` if the backward pass raises. `handle`: of the called
        module."""
        try:
            outcome.gradients = self._gradients(result, inputs, handle)
        except BaseException as error:
            outcome.raised = self.describe(error)
            outcome.raised.function = outcome.raised.function or BACKWARD

    def _gradients(self, result: Any, inputs: Inputs, handle: int | None) -> dict[str, PlacedTensor | None]:
        """Back-propagates fixed cotangents from a result. Returns the gradient of each argument and parameter, by name;
        None for those that no path leads to."""
        wanted = dict(inputs.leaves)
        module = self.handles.get(handle) if handle is not None else None
        if isinstance(module, nn.Module):
            wanted |= dict(module.named_parameters(remove_duplicate=False))  # a tied weight has two names
        outputs = [leaf for leaf in leaves(result) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        pairs = list(zip(outputs, cotangents(outputs), strict=True))
        pairs = [(output, cotangent) for output, cotangent in pairs if output.requires_grad]
        if not pairs or not wanted:
            return dict.fromkeys(wanted)
        for leaf in wanted.values():
            leaf.grad = None  # of an earlier call
        # What `Tensor.backward` calls: torch sees that as one function and does not report what happens inside. With
        # `torch.autograd.grad`, for some leaves only, a reentrant `checkpoint` fails.
        try:
            starts, gradients = zip(*pairs, strict=True)
            run_backward(starts, gradients, False, False, (), allow_unreachable=True, accumulate_grad=True)
        finally:
            self.quiet()
        return {
            # Copied: a later call may scale a parameter's gradient in place, as clipping does.
            name: None if leaf.grad is None else PlacedTensor(leaf.grad.detach().cpu().clone(), str(leaf.grad.device))
            for name, leaf in wanted.items()
        }

    def describe(self, error: BaseException) -> Raised:
        """The description of an error of the called code, with the line in its author's own file."""
        raised = described(error, self.is_own, self.names.get("__file__"))
        if isinstance(error, NameError | NotThere) and type(error.name) is str:
            raised.left_out = self.left_out(error.name)
        return raised


def cotangents(outputs: list[Tensor]) -> Iterator[Tensor]:
    """The gradients that are back-propagated from each output: cos(1), cos(2), … in the output's shape, one run over
    all outputs."""
    start = 1
    for output in outputs:
        count = output.numel() if output.device.type != "meta" else 0
        steps = torch.arange(start, start + count, dtype=torch.float64, device="cpu")  # a file may set a default device
        start += count
        if output.device.type == "meta":
            yield torch.empty_like(output)
        else:
            yield torch.cos(steps).to(output.device, output.dtype).reshape(output.shape)
