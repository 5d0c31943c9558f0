"""Drops unused parameters of tensors.

    before                                          after
    entry (%x: ptr<f32>, %n: i32, %one: i32) {      entry (%x: ptr<f32>, %n: i32) {
      …uses of %x and %n                              …uses of %x and %n
    }                                               }

Examples are a stride known to be one, an extent equal to another one, and a placeholder of an
optional tensor. The driver copies each parameter at every launch, which delays a small kernel.
Scalars stay, since launch checks read them from the passed arguments. Both entries of a module take
the same arguments. Runs last.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.arguments import Argument
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import BaseAddress, Extent, Stride
from tilewright.ir.op import Block
from tilewright.ir.rewrite import use_counts

__all__ = ["drop_parameters"]

_OF_TENSORS = (BaseAddress, Extent, Stride)


def drop_parameters(
    entries: tuple[Function, ...], arguments: tuple[Argument, ...]
) -> tuple[tuple[Function, ...], tuple[Argument, ...]]:
    """The entries without parameters that none of them uses, and the remaining arguments."""
    uses = [use_counts(entry) for entry in entries]
    is_kept = [
        not isinstance(argument.term, _OF_TENSORS)
        or any(count[entry.params[at]] for entry, count in zip(entries, uses, strict=True))
        for at, argument in enumerate(arguments)
    ]
    left = tuple(_with_params(entry, is_kept) for entry in entries)
    return left, tuple(one for one, kept in zip(arguments, is_kept, strict=True) if kept)


def _with_params(entry: Function, is_kept: list[bool]) -> Function:
    params = tuple(one for one, kept in zip(entry.params, is_kept, strict=True) if kept)
    return replace(entry, body=Block(params, entry.body.ops))
