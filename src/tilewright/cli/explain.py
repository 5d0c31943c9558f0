"""`tilewright explain FILE::kernel`: every check of a kernel, its placement, and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import click
from rich.text import Text

from tilewright.check.errors.bounds import CertainViolation, CheckDenied
from tilewright.cli.check_kernel import has_unsafe_blocks
from tilewright.cli.ledgers import annotated_source, condition_of, shared_dims, summary_of
from tilewright.cli.loading import load_kernel
from tilewright.cli.options import (
    json_option,
    kernel_options,
    read_settings,
    sample_text,
    specialization_for,
)
from tilewright.cli.screen import Screen, refusal
from tilewright.cli.witness import search_elsewhere, show_witness
from tilewright.diagnostics import Problem
from tilewright.errors import CompileError
from tilewright.frontend.signature.samples import sampled_constants
from tilewright.frontend.signature.specialization import Specialization
from tilewright.jit.compile.compiled import CompiledKernel
from tilewright.kernel import Kernel

__all__ = ["explain_command", "specialization_text"]


@click.command("explain")
@click.argument("address", metavar="FILE::KERNEL")
@kernel_options
@click.option(
    "--witness/--no-witness",
    default=True,
    help="Search for a small failing launch, if the kernel is unsafe or keeps a check.",
)
@json_option
@click.pass_obj
def explain_command(
    screen: Screen,
    /,
    address: str,
    settings: tuple[str, ...],
    target: str | None,
    witness: bool,
    as_json: bool,
) -> None:
    """Show the checks of a kernel: the placement of each, and the reason.

    The kernel is compiled for the usual case: contiguous tensors with extents divisible by 16. A
    counter-example is searched for if the kernel is unsafe, keeps a check, or is refused for its
    bounds.
    """
    kernel = load_kernel(address)
    specialization = specialization_for(kernel, settings, target)
    samples = sampled_constants(kernel.signature, read_settings(kernel.signature, settings))
    search = _WitnessSearch(screen, address, settings, is_wanted=witness)
    try:
        compiled = kernel.specialized(specialization)
    except CompileError as error:
        lines = [one.span.line for one in error.problems if _is_of_bounds(one)]
        found = search.run(lines, refused=True) if lines else None
        if as_json:
            screen.answer({**refusal(error), "witness": found})
        screen.refuse(type(error).__name__, str(error))
        if found is not None:
            show_witness(screen.err, found)
        raise click.exceptions.Exit(1) from None
    is_unsafe = kernel.options.unsafe or has_unsafe_blocks(kernel, compiled)
    is_suspect = is_unsafe or bool(compiled.ledger.in_kernel)
    found = search.run((), refused=False) if is_suspect else None
    if as_json:
        screen.answer({**_plain(kernel, compiled), "samples": samples, "witness": found})
        return
    _show(screen, kernel, compiled, samples)
    if is_suspect and witness:
        screen.out.print()
        show_witness(screen.out, found)


@dataclass(frozen=True)
class _WitnessSearch:
    """A search for a counter-example, if one is wanted."""

    screen: Screen
    address: str
    settings: tuple[str, ...]
    is_wanted: bool

    def run(self, lines: Iterable[int], *, refused: bool) -> dict[str, Any] | None:
        """The result of the search as plain data."""
        if not self.is_wanted:
            return None
        with self.screen.working("searching for a failing launch"):
            return search_elsewhere(self.address, self.settings, lines, refused=refused)


def _is_of_bounds(problem: object) -> TypeGuard[Problem]:
    return isinstance(problem, (CertainViolation, CheckDenied))


def specialization_text(kernel: Kernel, specialization: Specialization) -> str:
    """The specialisation of a kernel in one line."""
    specs = zip(kernel.signature.tensors, specialization.tensors, strict=True)
    parts = [
        f"{param.name}: {spec.dtype.label}[{', '.join(map(str, spec.tile or param.dims))}]"
        for param, spec in specs
    ]
    outputs = {dim for param in kernel.signature.cut_outputs for dim in param.dims}
    parts += [
        f"{name} = {getattr(value, 'label', value)}"
        for name, value in specialization.constants
        if name not in outputs
    ]
    return f"{', '.join(parts)} on {specialization.target}"


def _show(
    screen: Screen, kernel: Kernel, compiled: CompiledKernel, samples: Mapping[str, int]
) -> None:
    out = screen.out
    out.print(Text(kernel.__name__, "title"), end="  ")
    out.print(Text(specialization_text(kernel, compiled.specialization), "soft"), soft_wrap=True)
    if samples:
        out.print(Text(sample_text(samples), "soft"), soft_wrap=True)
    out.print()
    out.print(annotated_source(kernel.source, compiled.ledger))
    out.print()
    out.print(Text("every launch checks", "title"))
    conditions = [*shared_dims(kernel.signature), *map(condition_of, compiled.facts.launch_checks)]
    for condition in conditions or ["nothing but kinds, ranks, dtypes and devices"]:
        out.print(Text(f"  {condition}"), soft_wrap=True)
    out.print()
    out.print(Text(summary_of(compiled.ledger)))


def _plain(kernel: Kernel, compiled: CompiledKernel) -> dict[str, Any]:
    counts = compiled.ledger.counts
    return {
        "kernel": kernel.__name__,
        "file": kernel.source.file.path,
        "line": kernel.source.node.lineno,
        "specialization": specialization_text(kernel, compiled.specialization),
        "target": compiled.specialization.target,
        "deny_checks": kernel.options.deny_checks,
        "counts": {
            "proved": counts.proved,
            "launch": counts.launch,
            "hoisted": counts.hoisted,
            "in place": counts.in_place,
        },
        "ledger": compiled.ledger.to_json(),
        "shared_dims": list(shared_dims(kernel.signature)),
        "launch_checks": [
            {
                "condition": condition_of(check),
                "location": None if check.location is None else str(check.location),
                "guarded": check.guarded,
            }
            for check in compiled.facts.launch_checks
        ],
    }
