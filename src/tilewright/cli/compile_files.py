"""`tilewright compile FILE --all`: every kernel of a file in its usual case, in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from tilewright.backends.cuda.cubin import Resources, cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.cli.loading import load_declared
from tilewright.cli.options import target_here
from tilewright.cli.screen import BadInput, Screen
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.jit.cache.memory import in_background
from tilewright.jit.compile.compile_all import Finished, each_finished
from tilewright.kernel import Kernel

__all__ = ["compile_file"]


@dataclass
class _Kernel:
    """One compilation in progress; `cubin` is set once assembly has started."""

    kernel: Kernel
    target: str
    cubin: Future[bytes] | None = None

    def begin(self) -> tuple[Future[bytes], ...]:
        """Run the front end, and start the assembler."""
        kernel, target = self.kernel, self.target
        usual = sample_specialization(kernel.signature, target, {}, kernel.hints.of(target))
        bytecode = kernel.specialized(usual).bytecode
        self.cubin = in_background(lambda: find_toolchain().assemble(bytecode, target))
        return (self.cubin,)

    def resources(self) -> tuple[Resources, ...]:
        """The resources of the entries, once assembled."""
        if self.cubin is None or self.cubin.exception() is not None:
            return ()
        return tuple(cubin_resources(self.cubin.result()).values())


def compile_file(screen: Screen, path: Path, target: str | None, *, as_json: bool) -> bool:
    """Compile all kernels of a file and report each; True if all were compiled."""
    wanted = target or target_here()
    kernels = {one.__name__: _Kernel(one, wanted) for one in load_declared(path).kernels}
    if not kernels:
        raise BadInput(f"{path} has no kernel: decorate a function with @tw.kernel")
    finished: dict[str, Finished] = {}
    with _bar(screen, f"compiling for {wanted}", len(kernels)) as step:
        for one in each_finished((name, kernel.begin) for name, kernel in kernels.items()):
            finished[one.name] = one
            step()
    if as_json:
        rows = [_plain(kernels[name], finished[name]) for name in kernels]
        screen.answer({"target": wanted, "kernels": rows})
    else:
        _show(screen, kernels, finished)
    return all(one.error is None for one in finished.values())


@contextmanager
def _bar(screen: Screen, what: str, total: int) -> Iterator[Any]:
    """A progress bar, removed at the end."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=screen.err, transient=True) as progress:
        yield partial(progress.advance, progress.add_task(what, total=total))


def _show(screen: Screen, kernels: dict[str, _Kernel], finished: dict[str, Finished]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("kernel", "time", "entry", "registers", "shared memory", "stack"):
        table.add_column(heading, header_style="soft", overflow="fold")
    for name, kernel in kernels.items():
        seconds = f"{finished[name].seconds * 1e3:.0f} ms"
        for number, one in enumerate(kernel.resources()):
            first = (name, seconds) if not number else ("", "")
            numbers = str(one.registers), f"{one.shared_memory:,}", str(one.stack_bytes)
            table.add_row(*first, one.kernel, *numbers)
    if table.row_count:
        screen.out.print(table)
    for failed in finished.values():
        if failed.error is not None:
            screen.err.print(Text(f"{failed.name} could not be compiled", "bad"))
            screen.refuse(type(failed.error).__name__, str(failed.error))


def _plain(kernel: _Kernel, finished: Finished) -> dict[str, Any]:
    return {
        "kernel": finished.name,
        "seconds": finished.seconds,
        "error": None if finished.error is None else str(finished.error),
        "resources": [asdict(one) for one in kernel.resources()],
    }
