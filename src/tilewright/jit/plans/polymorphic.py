"""Polymorphic plans: one plan for all calls that differ in extents alone.

Calls with equal *polymorphic keys* have the same specialisation, and so the same program: dtypes,
tiles and constants are equal, and so are the properties of extents and strides that the compiler
uses. One generated function for each plan checks dims and launch checks, and computes the arguments
of the kernel function. It refuses nothing: a call that fails a check takes the cold path.
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
from tilewright.jit.bind.launch import choose_grid, common_grid, rules_for_extents
from tilewright.jit.plans.plan import Number, Plan
from tilewright.runtime.memory.layout_templates import TensorSpec
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition, Tiling
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.text_functions import define

if TYPE_CHECKING:
    from tilewright.check.launch import LaunchCheck

__all__ = ["PolymorphicPlan", "polymorphic_key"]

# Mask of the powers of two that tell divisors of strides and of contiguous extents apart.
_BITS = 15

# The arguments of a launch with these tensors, grid and number of blocks, with None for those that
# are filled in later; None instead of the tuple if a check fails.
Fit = Callable[[tuple[Tensor, ...], tuple[int, ...], int], tuple[Number | None, ...] | None]


def polymorphic_key(like: tuple[Any, ...]) -> tuple[Any, ...]:
    """The polymorphic key of a call: its spec key without the extents themselves."""
    return tuple([_KEYS[one.__class__](one) if one.__class__ in _KEYS else one for one in like])


def _key_of_spec(spec: TensorSpec) -> tuple[Any, ...]:
    """The properties of a tensor that its specialisation depends on."""
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


_KEYS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    TensorSpec: _key_of_spec,
    Tiling: lambda tiling: (tiling.tile, tiling.order, tiling.is_prefix),
}


class PolymorphicPlan:
    """A plan and its generated function of extents; it refers to no tensor."""

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
        """The plan for a call; None if a check fails."""
        if self._fit is None:
            self._fit = _make_fit(self._plan, self._signature, self._constants)
        chosen = self._grid(given, tensors, arguments)
        if chosen is None:
            return None
        grid, blocks = chosen
        template = self._fit(tensors, grid, blocks)
        if template is None or not blocks:
            return None  # without blocks the accesses differ
        return self._plan._replace(grid=grid, blocks=blocks, template=template)

    def _grid(
        self, given: tuple[int, ...] | None, tensors: tuple[Tensor, ...], arguments: tuple[Any, ...]
    ) -> tuple[tuple[int, ...], int] | None:
        """The grid and the number of blocks; None if the call has no valid grid."""
        if given is None and self._is_plain:
            found = common_grid([arguments[place] for _, place in self._cut])
            if found is not None:
                return found, prod(found)
        binding = Binding(self._signature, self._hints, self._plan.facts.hints)
        binding.tensors = dict(zip(self._plan.names, tensors, strict=True))
        for param, place in self._cut:
            cut: HostPartition | PersistentPartition = arguments[place]
            if isinstance(param, MappedParam):
                assert isinstance(cut, PersistentPartition), "equal keys have one type"
                binding.walked[param.name] = cut
                cut = cut.partition
            assert isinstance(cut, HostPartition), "equal keys have one type"
            binding.partitions[param.name] = cut
        try:
            choose_grid(binding, given)
        except LaunchError:
            return None
        return binding.grid, binding.blocks


def _make_fit(plan: Plan, signature: Signature, constants: dict[str, Any]) -> Fit:
    """Generate the function of extents of a plan."""
    numbers = {name: number for number, name in enumerate(plan.names)}

    def text_of(term: LaunchTerm) -> str:
        return _TEXTS[type(term)](term, numbers)

    rules = [*rules_for_extents(signature, constants, text_of)]
    others: list[LaunchCheck] = []
    for check in (*plan.facts.launch_checks, *plan.facts.padded):  # the cold path warns of padding
        if check in plan.checks:
            continue  # evaluated for every call, with its scalars
        text = check.as_python(text_of)
        if text is None:
            others.append(check)
        else:
            rules.append(text)
    if others:
        rules.append("others_hold(tensors, grid, blocks)")

    def others_hold(tensors: tuple[Tensor, ...], grid: tuple[int, ...], blocks: int) -> bool:
        return plan.all_hold(tuple(others), tensors, (), grid, blocks)

    passed = "".join(f"{_passed(one.term, text_of)}, " for one in plan.facts.arguments)
    shapes = "".join(
        f"    s{n}, d{n} = tensors[{n}].shape, tensors[{n}].strides\n" for n in numbers.values()
    )
    condition = " and ".join(f"({rule})" for rule in rules) or "True"
    text = (
        f"def fit(tensors, grid, blocks):\n{shapes}    if {condition}:\n        return ({passed})\n"
    )
    fit: Fit = define(text, "how a launch fits", {"others_hold": others_hold})["fit"]
    return fit


def _passed(term: LaunchTerm, text_of: Callable[[LaunchTerm], str]) -> str:
    """The expression of an argument; None for one that is filled in later."""
    return text_of(term) if type(term) in _TEXTS else "None"


_TEXTS: dict[type, Callable[[Any, dict[str, int]], str]] = {
    Extent: lambda term, numbers: f"s{numbers[term.param]}[{term.axis}]",
    Stride: lambda term, numbers: f"d{numbers[term.param]}[{term.axis}]",
    TileCount: lambda term, numbers: f"-(-s{numbers[term.param]}[{term.axis}] // {term.tile})",
    Blocks: lambda _, __: "blocks",
    GridExtent: lambda term, _: f"grid[{term.axis}]",
}
