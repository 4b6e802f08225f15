"""Measures what a call costs: the work of its matrix products, its largest storage, the kernels it launched, what it
kept for its backward pass.

The measured code can switch off a mode of torch's with torch's own context managers, and code within another mode or a
tensor subclass bypasses it. So ops are counted after torch's dispatcher has run all of these: by a fallback of ours
between its Python key and the kernels. The calls inside a kernel are part of its op.
"""

from __future__ import annotations

import gc
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from grader.calls import private_torch as private
from grader.calls.private_torch import include, is_included, length, redispatch, storage_of
from grader.calls.values import leaves

PLACE = "Fake"  # the key that comes after `Python` (not in old versions), and is otherwise unused
NAMESPACES = ("aten", "mkldnn", "onednn", "quantized", "_quantized", "static_runtime", "mkl")  # torch's own kernels
COMPOSITE = "CompositeImplicitAutograd"
NUMBERS = (int, float, complex)
UNSEEN = 2000  # ops that pass our function while nothing observes, which takes as long as to exchange it
KEY = private.key_named(PLACE)
_AFTER = private.keys_after(KEY)


class EveryOp:
    """Observes every op inside the block: `see` gets its arguments and its result."""

    watching: ClassVar[tuple[EveryOp, ...]] = ()
    _was_included = False

    def __enter__(self) -> Self:
        """Adds this watch to those that see each op."""
        _observe_ops()
        self._was_included = is_included(KEY)
        EveryOp.watching = (*EveryOp.watching, self)
        include(KEY, True)
        return self

    def __exit__(self, *why: object) -> None:
        EveryOp.watching = tuple(watcher for watcher in EveryOp.watching if watcher is not self)
        include(KEY, self._was_included)

    def see(self, op: Op, args: tuple[Any, ...], result: Any) -> None:
        """Called after each op that runs, with its positional arguments and its result."""
        raise NotImplementedError


class Op(NamedTuple):
    """An op of torch's C++, as its name finds it. What the Python object of an op says of itself can be changed: then
    another op runs, and counts as that."""

    object: Any  # of Python: kept, so that its id stays its own
    name: str  # such as `aten::add.Tensor`
    handle: Any
    call: Callable[..., Any]
    runs_others: bool  # the ops inside it are to be seen: it is composed of them, or it is not torch's own
    tensors: tuple[int, ...]  # the positions of arguments that may hold a tensor
    aliases: bool  # its results are views of its arguments, or these themselves
    short: str  # its name alone: `add`
    multiplies: str  # how `MatrixProducts` counts it, if it does


_OPS: dict[int, Op] = {}


def _described(op: Any) -> Op:
    """The description of torch's op object; made once, and cached by the object's id."""
    found = _OPS.get(id(op))
    if found is None:
        qualified, _dot, overload = (name := op.name()).partition(".")
        handle = private.handle_of(qualified, overload)
        # In inference mode a composed op gets as far as our key.
        runs_others = qualified.partition("::")[0] not in NAMESPACES or private.has_kernel(name, COMPOSITE)
        schema = handle.schema()
        tensors = tuple(index for index, one in enumerate(schema.arguments) if isinstance(one.type, torch.TensorType))
        grows = any(one.kwarg_only and one.alias_info for one in schema.arguments)  # what is given as `out`
        aliases = not grows and bool(schema.returns) and all(one.alias_info for one in schema.returns)
        call, short = private.overload_of(qualified, overload)[0], qualified.partition("::")[2]
        found = _OPS[id(op)] = Op(op, name, handle, call, runs_others, tensors, aliases, short, _multiplication(short))
    return found


def run(op: Any, keys: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an op dispatched to our key; tells all observers, unless it is made of ops that come here themselves."""
    op = _OPS.get(id(op)) or _described(op)
    watching = EveryOp.watching
    if not watching:
        _Fallback.unseen += 1
    if (not watching or op.runs_others) and not _has_number_for_tensor(op, args):
        return redispatch(op.handle, keys & _AFTER, *args, **kwargs)
    include(KEY, False)
    try:
        result = _called(op, args, kwargs)  # not `redispatch`, which takes no number for a tensor
        for watcher in watching:
            watcher.see(op, args, result)
    finally:
        include(KEY, True)
    return result


def _has_number_for_tensor(op: Op, args: tuple[Any, ...]) -> bool:
    """True if a number is passed for one of the op's tensor parameters."""
    for place in op.tensors:  # called for each op that passes here: a generator takes twice as long
        if place < len(args) and not isinstance(args[place], Tensor) and isinstance(args[place], NUMBERS):
            return True
    return False


def _called(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the op; numbers become tensors if it takes only these."""
    try:
        return op.call(*args, **kwargs)
    except RuntimeError:
        if not _has_number_for_tensor(op, args):
            raise
    # Not every op takes a number there, as `pow` does not: torch's own code made a tensor of it.
    return op.call(*(_as_tensor(each) if place in op.tensors else each for place, each in enumerate(args)), **kwargs)


def _as_tensor(value: Any) -> Any:
    """A number as a tensor on the CPU; any other value itself."""
    if isinstance(value, float):
        return torch.scalar_tensor(value, dtype=torch.float64, device="cpu")
    return torch.tensor(value, device="cpu") if isinstance(value, int | complex) else value


class _Fallback:
    """The handler at our key for ops without a function of their own there: none, or a Python function, which slows
    every op of a call that includes the key. Exchanging them takes some milliseconds, so the function stays from one
    measured call to the next."""

    library: private.Kernels | None = None
    looks = False
    unseen = 0  # ops that passed the function while nothing observed

    @classmethod
    def register(cls, fallback: Any, *, looks: bool) -> None:
        """Puts `fallback` in place of the handler; `looks`: it is a Python function, which gets the keys of an op."""
        if cls.library is not None:
            cls.library.destroy()
        cls.library = private.Kernels("_")
        cls.library.fallback(fallback, PLACE, with_keyset=looks)
        cls.looks, cls.unseen = looks, 0


# `detach` does no work, and gives what is to become a parameter: that must not have been an object of Python's before.
_DETACHED = private.Kernels("aten")
_DETACHED.impl("aten::detach", private.fallthrough_kernel, PLACE)


def let_ops_pass(*, patiently: bool = False) -> None:
    """Has ops pass our key unobserved, unless an observer is at work; `patiently`: if the handler there observes, only
    after many ops have passed it in vain. From then on the key may be included."""
    in_the_way = _Fallback.looks and (not patiently or _Fallback.unseen > UNSEEN)
    if not EveryOp.watching and (in_the_way or _Fallback.library is None):
        _Fallback.register(private.fallthrough_kernel, looks=False)


def _observe_ops() -> None:
    """Registers the handler that observes every op, if it isn't yet."""
    if not _Fallback.looks:
        _Fallback.register(_observed, looks=True)


def _observed(keys: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    return run(op, keys, args, kwargs)


# The positions of an op's two factors: every matrix product, linear layer or einsum ends in one of these.
FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "mv": 0, "addmv": 1, "dot": 0, "vdot": 0}
# Other ops in which there are products of matrices, few of which anybody needs.
PRODUCTS = re.compile(
    r"mm(_|$)|matmul|conv(olution|_|\d)|linear(?!\dd)|embedding_bag|_trilinear$|rnn|lstm|gru|addr|solve|cdist"
)
ELEMENTWISE = re.compile(r"(_foreach_)?(mul|div|addcmul|addcdiv|lerp)_?$")
COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
ATTENTION = "scaled_dot_product"  # one op with two products in it, of query and key, and of weights and value


def _multiplication(name: str) -> str:
    """How `MatrixProducts` counts an op of this name: "matrices", "attention", "elements", "others"; else empty."""
    if name in FACTORS:
        return "matrices"
    if ATTENTION in name and "backward" not in name:
        return "attention"
    if ELEMENTWISE.match(name):
        return "elements"
    return "others" if PRODUCTS.search(name) else ""


class LargestStorage(EveryOp):
    """Records the largest storage, in elements, of any tensor that an op returns inside the block."""

    def __init__(self) -> None:
        self.measured = 0

    def see(self, op: Op, args: tuple[Any, ...], result: Any) -> None:
        """Sets `measured` to the elements of the largest storage of a result, if it is the largest so far."""
        for leaf in (result,) if isinstance(result, Tensor) else _tensors_in(result):
            if (elements := _elements(leaf)) > self.measured:
                self.measured = elements


class LiveStorages(EveryOp):
    """Records the peak, in elements, of the storages that ops made inside the block and that are there at once: a
    matrix that is kept in pieces counts as a whole."""

    def __init__(self) -> None:
        self.measured = 0
        self._made: list[tuple[private.WeakStorage, int]] = []
        self._total = 0  # of all in the list

    def see(self, op: Op, args: tuple[Any, ...], result: Any) -> None:
        """Adds the storages of an op's results, except those of its arguments."""
        for leaf, storage in _new_storages(op, args, result):
            if not leaf.is_meta:
                elements = private.storage_size(storage) // private.element_size(leaf)
                self._made.append((private.WeakStorage(storage), elements))
                self._total += elements
        if self._total > self.measured:  # else it is no new peak, whatever has been freed
            self._made = [entry for entry in self._made if not entry[0].expired()]
            self._total = sum(elements for _storage, elements in self._made)
            self.measured = max(self.measured, self._total)


def _tensors_in(result: Any) -> list[Tensor]:
    """The tensors in an op's result that is a list or tuple; empty for any other result, even for a tensor."""
    return [leaf for leaf in result if isinstance(leaf, Tensor)] if isinstance(result, list | tuple) else []


def _new_storages(op: Op, args: tuple[Any, ...], result: Any) -> Iterator[tuple[Tensor, Any]]:
    """Yields each tensor among an op's results that shares no storage with its arguments, with its storage."""
    for leaf in () if op.aliases else (result,) if isinstance(result, Tensor) else _tensors_in(result):
        if _has_storage(leaf) and not _is_argument_storage((storage := storage_of(leaf)).data_ptr(), args):
            yield leaf, storage


def _is_argument_storage(address: int, args: Iterable[Any]) -> bool:
    """Whether a tensor among the arguments, or in a list of them, has its storage at this address in memory."""
    for leaf in args:
        if isinstance(leaf, Tensor):
            if _has_storage(leaf) and storage_of(leaf).data_ptr() == address:
                return True
        elif isinstance(leaf, list | tuple) and _is_argument_storage(address, leaf):
            return True
    return False


def _elements(tensor: Tensor) -> int:
    """The number of elements in a tensor's storage; for a sparse tensor, in that of its values."""
    if tensor.layout == torch.strided:
        return int(private.storage_size(storage_of(tensor)) // private.element_size(tensor))
    if tensor.layout == torch.sparse_coo:
        return tensor._values().numel()
    return tensor.values().numel() if tensor.layout in COMPRESSED else tensor.numel()


class MatrixProducts(EveryOp):
    """Counts the multiplications and additions of matrix products inside the block, by the dtype of their factors.

    So does an elementwise product that is larger than each of its factors: summed up, it is a matrix product. What
    computes nothing, on `meta`, counts if the call is made there (`on_meta`).
    """

    def __init__(self, on_meta: bool = False) -> None:
        self.on_meta = on_meta
        self.measured: Counter[str] = Counter()

    def see(self, op: Op, args: tuple[Any, ...], result: Any) -> None:
        """Counts the products of an op."""
        kind = op.multiplies
        if not kind:
            return
        if kind == "matrices":
            first, second = args[FACTORS[op.short] :][:2]
            self._count(first, length(first) * (second.shape[-1] if second.dim() > 1 else 1))
        elif kind == "attention":
            query, key, value = args[:3]
            self._count(query, query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
        elif kind == "elements":
            lengths = [length(leaf) for leaf in leaves(args) if isinstance(leaf, Tensor)]
            for each in leaves(result):
                if isinstance(each, Tensor) and length(each) > max(lengths):
                    self._count(each, length(each))
        else:
            # Of an (m, k) and a (k, n) matrix, m * n * k is the root of the product of all three sizes.
            sizes = sorted(length(leaf) for leaf in leaves(args) if isinstance(leaf, Tensor))[-2:]
            for each in leaves(result):
                if isinstance(each, Tensor):
                    self._count(each, math.isqrt(math.prod(sizes) * length(each)))

    def _count(self, factor: Tensor, products: int) -> None:
        """Adds the operations of so many multiply-adds, for the dtype of a factor."""
        if self.on_meta or not factor.is_meta:
            work = 8 if factor.is_complex() else 2
            self.measured[str(factor.dtype).removeprefix("torch.")] += work * products


class SavedForBackward(EveryOp):
    """Counts the elements of the storages that are saved for a backward pass inside the block, each once.

    Hooks of the called code's own take what is saved, as those of `checkpoint` do, which forget it. Of that, only what
    they store unchanged counts. Besides, `add_what_is_left` adds what an op made and what is alive afterwards, whatever
    holds it: an attribute of a `ctx`, or a list.
    """

    active: SavedForBackward | None = None

    def __init__(self, modules: Iterable[Any]) -> None:
        """Prepares to count all but the parameters of these objects, if they are modules."""
        parameters = (p for module in modules if isinstance(module, nn.Module) for p in module.parameters())
        self._ours = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._seen: dict[int, torch.UntypedStorage] = {}  # held, so that no place in memory is taken twice
        self.measured = 0

    def __enter__(self) -> Self:
        """Has autograd hand each tensor that it saves to `_note`."""
        super().__enter__()
        private.push_saved_hooks(self._note, lambda saved: saved)
        self._made: dict[int, tuple[private.WeakStorage, int]] = {}
        SavedForBackward.active = self
        return self

    def __exit__(self, *why: object) -> None:
        SavedForBackward.active = None
        private.pop_saved_hooks()
        super().__exit__(*why)

    def add_what_is_left(self, result: Any) -> None:
        """Adds, once the call is over, the storages that are still alive, except that of its result."""
        returned = {leaf.untyped_storage().data_ptr() for leaf in leaves(result) if isinstance(leaf, Tensor)}
        left = self._made.keys() - self._seen.keys() - self._ours - returned
        if any(not self._made[address][0].expired() for address in left):
            gc.collect()
        storages = [self._made[address] for address in left]
        self.measured += sum(elements for storage, elements in storages if not storage.expired())

    def see(self, op: Op, args: tuple[Any, ...], result: Any) -> None:
        """Notes the storages of an op's results, except those of its arguments, which were made before."""
        for leaf, _storage in _new_storages(op, args, result):
            self._remember(leaf)

    def _remember(self, tensor: Tensor) -> None:
        """Stores a weak reference to a tensor's storage, with its number of elements, for `add_what_is_left`."""
        storage = tensor.untyped_storage()
        self._made[storage.data_ptr()] = private.WeakStorage(storage), storage.nbytes() // tensor.element_size()

    def take(self, saved: Tensor, packed: Any) -> None:
        """Counts the tensors that a hook of the called code stored (`packed`) in place of a tensor to be saved."""
        self._remember(saved)
        for leaf in leaves(packed if isinstance(packed, tuple | list) else (packed,)):
            if isinstance(leaf, Tensor):
                self._note(leaf)

    def _note(self, saved: Tensor) -> Tensor:
        """Counts a saved tensor's storage, unless it was counted or is a parameter's; returns the tensor."""
        storage = saved.untyped_storage()
        address = storage.data_ptr()
        if address not in self._ours and address not in self._seen:
            self._seen[address] = storage
            self.measured += storage.nbytes() // saved.element_size()
        return saved


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided


def _noting_hooks(push: Callable[..., None]) -> Callable[..., None]:
    """torch's function that pushes saved-tensor hooks, wrapped so that the active count is told what hooks store."""

    @private.in_place_of(push)
    def pushing(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        """Pushes the two hooks, `pack` so that the count of this moment is told what it stores."""
        watch = SavedForBackward.active

        def noting(saved: Tensor) -> Any:
            packed = pack(saved)
            if watch is not None and watch is SavedForBackward.active:
                watch.take(saved, packed)
            return packed

        push(pack if watch is None else noting, unpack)

    return pushing


# Before a learner's file can import the original.
private.put(private.SAVED_HOOKS, _noting_hooks)
