"""`tilewright compile FILE::kernel`: to Tile IR, bytecode or a cubin, with its resources."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from tilewright.backends.cuda.cubin import Resources, cubin_resources
from tilewright.backends.cuda.remarks import Remark
from tilewright.backends.cuda.residency import blocks_at_once
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.cli.compile_files import compile_file
from tilewright.cli.estimates import Estimate, estimate_share
from tilewright.cli.explain import specialization_text
from tilewright.cli.loading import SEPARATOR, load_kernel
from tilewright.cli.options import json_option, kernel_options, specialization_for
from tilewright.cli.screen import BadInput, Screen, answering_refusals
from tilewright.cli.tile_ir_files import write_bytes
from tilewright.frontend.signature.specialization import Specialization
from tilewright.ir.text import module_text
from tilewright.jit.compile.compiled import CompiledKernel
from tilewright.jit.compile.launch_warnings import TOLERATED
from tilewright.kernel import Kernel
from tilewright.runtime.loading import load_module

__all__ = ["compile_command"]


@dataclass(frozen=True)
class CompileResult:
    """The output of one run of the command, and the time of each part."""

    kernel: Kernel
    compiled: CompiledKernel
    front_end_seconds: float
    data: bytes  # in the requested form
    assembler: str = ""  # version of tileiras, if it ran
    assembler_seconds: float = 0.0
    resources: tuple[Resources, ...] = ()
    remarks: tuple[Remark, ...] = ()


@click.command("compile")
@click.argument("address", metavar="FILE::KERNEL")
@kernel_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file; without it Tile IR is printed, and other forms are summarised.",
)
@click.option(
    "--emit",
    type=click.Choice(["cubin", "bytecode", "tileir"]),
    default="cubin",
    show_default=True,
    help="Output of the last stage to run.",
)
@click.option("--remarks", "with_remarks", is_flag=True, help="Show tileiras choices by line.")
@click.option("--all", "is_all", is_flag=True, help="All kernels of FILE, each in its usual case.")
@json_option
@click.pass_obj
@click.pass_context
def compile_command(ctx: click.Context, screen: Screen, /, address: str, **options: Any) -> None:
    """Compile a kernel without running it, and report registers, memory and time.

    With --all the kernels of a file are compiled in parallel; a failure does not stop the others.
    """
    emit, output, as_json = options["emit"], options["output"], options["as_json"]
    if options["is_all"]:
        if SEPARATOR in address or output is not None or options["settings"] or emit != "cubin":
            raise BadInput("--all takes a FILE and --target; other options are for a single kernel")
        done = compile_file(screen, Path(address), options["target"], as_json=as_json)
        ctx.exit(0 if done else 1)
    if options["with_remarks"] and emit != "cubin":
        raise BadInput("--remarks come from tileiras, which only a cubin needs: use --emit cubin")
    kernel = load_kernel(address)
    specialization = specialization_for(kernel, options["settings"], options["target"])
    with answering_refusals(screen, as_json):
        product = _EMITTERS[emit](screen, kernel, specialization, options["with_remarks"])
    if output is not None:
        write_bytes(output, product.data)
    if as_json:
        screen.answer(_plain(product, output))
        return
    is_printed = emit == "tileir" and output is None
    if is_printed:
        click.echo(product.data.decode(), nl=False)
    _report(screen, product, output, on_error=is_printed)


def _front_end(kernel: Kernel, specialization: Specialization) -> tuple[CompiledKernel, float]:
    """From the AST to bytecode, timed; the import of the compiler is excluded."""
    load_module("tilewright.jit.compile.compiler")
    started = time.perf_counter()
    compiled = kernel.specialized(specialization)
    assert compiled.bytecode.data, "bytecode is made on demand, and is part of the front end"
    return compiled, time.perf_counter() - started


def _to_text(_: Screen, kernel: Kernel, specialization: Specialization, __: bool) -> CompileResult:
    compiled, seconds = _front_end(kernel, specialization)
    return CompileResult(kernel, compiled, seconds, module_text(compiled.module).encode())


def _to_bytecode(
    _: Screen, kernel: Kernel, specialization: Specialization, __: bool
) -> CompileResult:
    compiled, seconds = _front_end(kernel, specialization)
    return CompileResult(kernel, compiled, seconds, compiled.bytecode.data)


def _to_cubin(
    screen: Screen, kernel: Kernel, specialization: Specialization, with_remarks: bool
) -> CompileResult:
    compiled, seconds = _front_end(kernel, specialization)
    toolchain, target = find_toolchain(), specialization.target
    remarks: tuple[Remark, ...] = ()
    with screen.working(f"tileiras {toolchain.version} for {target} …"):
        started = time.perf_counter()
        if with_remarks:
            cubin, remarks = toolchain.assemble_with_remarks(compiled.bytecode, target)
        else:
            cubin = toolchain.assemble(compiled.bytecode, target)
        elapsed = time.perf_counter() - started
    resources = tuple(cubin_resources(cubin).values())
    return CompileResult(
        kernel, compiled, seconds, cubin, toolchain.version, elapsed, resources, remarks
    )


_EMITTERS = {"cubin": _to_cubin, "bytecode": _to_bytecode, "tileir": _to_text}


# --- text output ----------------------------------------------------------------------------------


def _report(screen: Screen, product: CompileResult, output: Path | None, *, on_error: bool) -> None:
    page = screen.err if on_error else screen.out
    page.print(Text(product.kernel.__name__, "title"), end="  ")
    text = specialization_text(product.kernel, product.compiled.specialization)
    page.print(Text(text, "soft"), soft_wrap=True)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(product, output):
        facts.add_row(Text(name, "soft"), value)
    page.print(facts)
    if product.remarks:
        page.print(_remarks_table(product))


def _facts(product: CompileResult, output: Path | None) -> list[tuple[str, str]]:
    encoded = product.compiled.bytecode
    version = ".".join(map(str, encoded.version))
    facts = [("front end", f"{product.front_end_seconds * 1e3:.1f} ms")]
    if product.assembler:
        elapsed = f"{product.assembler_seconds * 1e3:.0f} ms"
        facts.append((f"tileiras {product.assembler}", elapsed))
    facts.append((f"bytecode {version}", f"{len(encoded.data):,} bytes"))
    facts.append(("hints", _hints_text(product.compiled)))
    for one in product.resources:
        facts += [(f"entry {one.kernel}", _resources_text(one)), *_speed(product, one)]
    if output is not None:
        facts.append(("written", f"{output}, {len(product.data):,} bytes"))
    return facts


def _hints_text(compiled: CompiledKernel) -> str:
    """The hints of the kernel, the author's apart from those that follow from its tiles."""
    given = compiled.specialization.hints.given()
    every = {name: value for name, value in asdict(compiled.facts.hints).items() if value}
    texts = [f"{name}={value}" for name, value in given.items()]
    chosen = [f"{name}={value}" for name, value in every.items() if name not in given]
    if chosen:
        texts.append(f"{', '.join(chosen)} (chosen by its tiles)")
    return ", ".join(texts) or "none"


def _resources_text(one: Resources) -> str:
    return (
        f"{one.registers} registers a thread, {one.threads} threads, {one.shared_memory:,} bytes "
        f"of shared memory, {one.stack_bytes:,} bytes of stack a thread"
        f"{' (spills)' if one.stack_bytes > TOLERATED else ''}"
    )


def _speed(product: CompileResult, one: Resources) -> Iterator[tuple[str, str]]:
    """Occupancy, and the estimate of the share of the peak."""
    target = product.compiled.specialization.target
    blocks = blocks_at_once(one, target)
    if blocks is not None:
        yield "occupancy", f"{blocks} {'block' if blocks == 1 else 'blocks'} a multiprocessor"
    estimate = _estimate(product, one)
    if estimate is not None:
        yield "estimate", f"at most {estimate.share:.0%} of {estimate.of}, by a simple model"


def _estimate(product: CompileResult, one: Resources) -> Estimate | None:
    compiled = product.compiled
    entries = {entry.name: entry for entry in compiled.module.functions}
    if one.kernel not in entries:
        return None
    return estimate_share(entries[one.kernel], one, compiled.specialization.target)


def _remarks_table(product: CompileResult) -> Table:
    source = product.kernel.source.file
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("line", "source", "tileiras"):
        table.add_column(heading, header_style="soft", overflow="fold")
    line = None
    for remark in sorted(product.remarks, key=lambda remark: (remark.line, remark.message)):
        is_known = remark.file == source.path
        shown = Text(source.line(remark.line).strip()) if is_known else Text(remark.file)
        first = remark.line != line
        table.add_row(
            str(remark.line) if first and remark.line else "",
            shown if first else Text(),
            Text(remark.message, "good" if remark.passed else "hoisted"),
        )
        line = remark.line
    return table


def _plain_resources(product: CompileResult, one: Resources) -> dict[str, Any]:
    estimate = _estimate(product, one)
    return {
        **asdict(one),
        "occupancy": blocks_at_once(one, product.compiled.specialization.target),
        "estimate": None if estimate is None else asdict(estimate),
    }


def _plain(product: CompileResult, output: Path | None) -> dict[str, Any]:
    compiled = product.compiled
    return {
        "kernel": product.kernel.__name__,
        "specialization": specialization_text(product.kernel, compiled.specialization),
        "target": compiled.specialization.target,
        "front_end_seconds": product.front_end_seconds,
        "tileiras": product.assembler or None,
        "tileiras_seconds": product.assembler_seconds if product.assembler else None,
        "bytecode_version": ".".join(map(str, compiled.bytecode.version)),
        "bytecode_bytes": len(compiled.bytecode.data),
        "bytes": len(product.data),
        "output": None if output is None else str(output),
        "hints": asdict(compiled.facts.hints),
        "resources": [_plain_resources(product, one) for one in product.resources],
        "remarks": [asdict(remark) for remark in product.remarks],
    }
