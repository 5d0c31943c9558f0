"""`tilewright explain FILE::kernel`: every check of a kernel, where it was settled, and why."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from tilewright.cli.ledgers import annotated_source, condition_of, shared_dims, summary_of
from tilewright.cli.loading import load_kernel
from tilewright.cli.options import json_option, kernel_options, specialization_for
from tilewright.cli.screen import Screen, answering_refusals
from tilewright.frontend.specialization import Specialization
from tilewright.jit.compiled import CompiledKernel
from tilewright.kernel import Kernel

__all__ = ["explain_command", "specialization_text"]


@click.command("explain")
@click.argument("address", metavar="FILE::KERNEL")
@kernel_options
@json_option
@click.pass_obj
def explain_command(
    screen: Screen, address: str, settings: tuple[str, ...], target: str | None, as_json: bool
) -> None:
    """Show the checks of a kernel: where each was settled, and why.

    The kernel is compiled for the usual case: contiguous tensors whose sizes divide by 16.
    """
    kernel = load_kernel(address)
    specialization = specialization_for(kernel, settings, target)
    with answering_refusals(screen, as_json):
        compiled = kernel.specialized(specialization)
    if as_json:
        screen.answer(_plain(kernel, compiled))
    else:
        _show(screen, kernel, compiled)


def specialization_text(kernel: Kernel, specialization: Specialization) -> str:
    """What a kernel was compiled for, in a line."""
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


def _show(screen: Screen, kernel: Kernel, compiled: CompiledKernel) -> None:
    out = screen.out
    out.print(Text(kernel.__name__, "title"), end="  ")
    out.print(Text(specialization_text(kernel, compiled.specialization), "soft"), soft_wrap=True)
    out.print()
    out.print(annotated_source(kernel.source, compiled.ledger))
    out.print()
    out.print(Text("every launch checks", "title"))
    conditions = [*shared_dims(kernel.signature), *map(condition_of, compiled.launch_checks)]
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
            for check in compiled.launch_checks
        ],
    }
