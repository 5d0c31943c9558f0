"""Plans for other extents: all that was decided for one launch, but for what extents decide.

Two calls are *kin* if they need the same specialisation: the same dtypes, tiles and constants, and
extents and strides that the compiler knows the same of. Then the program is the same, and what is
left is one generated function: do the dims agree, do the launch checks hold, what is passed. It
refuses nothing: where it finds anything wrong the call is looked at as if it were the first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import MappedParam, Signature
from tilewright.frontend.signature.specialization import MAX_EXTENT
from tilewright.ir.launch_terms import Blocks, Extent, GridExtent, LaunchTerm, Stride, TileCount
from tilewright.jit.bind.binding import Binding
from tilewright.jit.bind.dims import rules_for_extents
from tilewright.jit.bind.grid import choose_grid, common_grid
from tilewright.jit.plans.plan import Number, Plan
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.memory.tensor_spec import TensorSpec
from tilewright.runtime.memory.tilings import Tiling
from tilewright.runtime.text_functions import define

if TYPE_CHECKING:
    from tilewright.check.launch import LaunchCheck

__all__ = ["PolymorphicPlan", "polymorphic_key"]

# A stride, or an extent of stride one, counts by its lowest bit, if that is one of these.
_BITS = 15

# What is passed to a kernel in a launch with these tensors, grid and number of blocks; None for
# what is known later. None at all if something is not as it has to be.
Fit = Callable[[tuple[Tensor, ...], tuple[int, ...], int], tuple[Number | None, ...] | None]


def polymorphic_key(like: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of a call, by what its tensors are like, without what extents decide."""
    return tuple([_KEYS[one.__class__](one) if one.__class__ in _KEYS else one for one in like])


def _key_of_spec(spec: TensorSpec) -> tuple[Any, ...]:
    """All that a specialisation knows of a tensor."""
    last = 0
    bits: list[Any] = []
    for extent, stride in zip(spec.shape, spec.strides, strict=True):
        last += (extent - 1) * stride
        bits.append((extent & -extent) & _BITS if stride == 1 else 0)
        bits.append(((stride & -stride) & _BITS, stride == 1, stride > MAX_EXTENT))
    return (
        spec.dtype, spec.place, spec.device, spec.is_owned, spec.is_disjoint,
        last > MAX_EXTENT, *bits,
    )  # fmt: skip


def _key_of_tiling(tiling: Tiling) -> tuple[Any, ...]:
    return (tiling.tile, tiling.order, tiling.is_prefix)


_KEYS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    TensorSpec: _key_of_spec,
    Tiling: _key_of_tiling,
}


class PolymorphicPlan:
    """A plan and how it changes with extents. Nothing of it depends on a tensor."""

    __slots__ = ("_constants", "_cut", "_fit", "_hints", "_is_plain", "_plan", "_signature")

    def __init__(self, plan: Plan, binding: Binding, call: inspect.Signature) -> None:
        self._plan = plan
        self._signature = binding.signature
        self._hints = binding.hints
        self._constants = dict(binding.constants)
        self._fit: Fit | None = None
        places = {name: place for place, name in enumerate(call.parameters)}
        self._cut = tuple((p, places[p.name]) for p in binding.signature.cut_outputs)
        self._is_plain = not any(isinstance(param, MappedParam) for param, _ in self._cut)

    def plan_for(
        self, given: tuple[int, ...] | None, tensors: tuple[Tensor, ...], arguments: tuple[Any, ...]
    ) -> Plan | None:
        """The plan for a call; None if somebody has to look at it."""
        if self._fit is None:
            self._fit = _make_fit(self._plan, self._signature, self._constants)
        chosen = self._grid(given, tensors, arguments)
        if chosen is None:
            return None
        grid, blocks = chosen
        template = self._fit(tensors, grid, blocks)
        if template is None or not blocks:
            return None  # where no block runs, old contents stay
        return self._plan._replace(grid=grid, blocks=blocks, template=template)

    def _grid(
        self, given: tuple[int, ...] | None, tensors: tuple[Tensor, ...], arguments: tuple[Any, ...]
    ) -> tuple[tuple[int, ...], int] | None:
        """How many blocks run."""
        if given is None and self._is_plain:
            found = common_grid([arguments[place] for _, place in self._cut])
            if found is not None:
                return found, prod(found)
        binding = Binding(self._signature, self._hints)
        binding.tensors = dict(zip(self._plan.names, tensors, strict=True))
        for param, place in self._cut:
            cut: HostPartition | PersistentPartition = arguments[place]
            if isinstance(param, MappedParam):
                assert isinstance(cut, PersistentPartition), "what is kin is of one kind"
                binding.walked[param.name] = cut
                cut = cut.partition
            assert isinstance(cut, HostPartition), "what is kin is of one kind"
            binding.partitions[param.name] = cut
        try:
            choose_grid(binding, given)
        except LaunchError:
            return None
        return binding.grid, binding.blocks


def _make_fit(plan: Plan, signature: Signature, constants: dict[str, Any]) -> Fit:
    """One function for all that extents decide."""
    numbers = {name: number for number, name in enumerate(plan.names)}

    def text_of(term: LaunchTerm) -> str:
        return _TEXTS[type(term)](term, numbers)

    rules = [*rules_for_extents(signature, constants, text_of)]
    rules += [note.as_python(text_of) for note in plan.facts.padded]  # or the launch would warn
    slow: list[LaunchCheck] = []
    for check in plan.facts.launch_checks:
        if check in plan.checks:
            continue  # evaluated with the scalars, every time
        text = check.as_python(text_of)
        if text is None:
            slow.append(check)
        else:
            rules.append(text)
    passed = "".join(f"{_passed(one.term, text_of)}, " for one in plan.facts.arguments)
    shapes = "".join(
        f"    s{n}, d{n} = tensors[{n}].shape, tensors[{n}].strides\n" for n in numbers.values()
    )
    condition = " and ".join(f"({rule})" for rule in rules) or "True"
    text = (
        f"def fit(tensors, grid, blocks):\n{shapes}    if {condition}:\n        return ({passed})\n"
    )
    quick: Fit = define(text, "how a launch fits", {})["fit"]
    if not slow:
        return quick

    def fit(
        tensors: tuple[Tensor, ...], grid: tuple[int, ...], blocks: int
    ) -> tuple[Number | None, ...] | None:
        holds = plan.all_hold(tuple(slow), tensors, (), grid, blocks)
        return quick(tensors, grid, blocks) if holds else None

    return fit


def _passed(term: LaunchTerm, text_of: Callable[[LaunchTerm], str]) -> str:
    """An argument as text; None is filled in later."""
    return text_of(term) if type(term) in _TEXTS else "None"


_TEXTS: dict[type, Callable[[Any, dict[str, int]], str]] = {
    Extent: lambda term, numbers: f"s{numbers[term.param]}[{term.axis}]",
    Stride: lambda term, numbers: f"d{numbers[term.param]}[{term.axis}]",
    TileCount: lambda term, numbers: f"-(-s{numbers[term.param]}[{term.axis}] // {term.tile})",
    Blocks: lambda _, __: "blocks",
    GridExtent: lambda term, _: f"grid[{term.axis}]",
}
