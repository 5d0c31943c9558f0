"""Executables: loaded from disk, or compiled and assembled.

For the CPU a compilation takes milliseconds, and nothing is cached on disk. For a GPU a miss of the
disk cache is compiled here, assembled in the background once for all processes, and cached. Each
step is logged, with its duration, to the logger `tilewright`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import LaunchError, ToolchainError
from tilewright.frontend.signature.specialization import describe
from tilewright.frontend.source.captures import Captures
from tilewright.jit.cache.memory import in_background
from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Request
from tilewright.jit.compile.launch_warnings import SpillTeller, refused_tile
from tilewright.jit.loader import Program, cpu_program, cuda_program, disk_cache

if TYPE_CHECKING:
    from tilewright.jit.cache.disk import DiskCache, Found

__all__ = ["Executable", "make_executable"]

_log = logging.getLogger("tilewright")


@dataclass(frozen=True, eq=False)
class Executable:
    """The executable of one specialisation; its program may still be in the assembler."""

    facts: LaunchFacts
    captures: Captures
    program: Future[Program]
    teller: SpillTeller

    @property
    def has_failed(self) -> bool:
        """Whether the assembler has failed."""
        return self.program.done() and self.program.exception() is not None


def make_executable(
    kind: str, request: Request, compile_: Callable[[], CompiledKernel]
) -> Executable:
    """Find or make the executable for a kind of device; `compile_` runs the front end."""
    start, teller = time.perf_counter(), SpillTeller(request)
    if kind == "cpu":
        compiled = compile_()
        program = cpu_program.make_program(compiled.module)
        _tell(request, "compiled", start)
        return Executable(compiled.facts, compiled.captures, _at_once(program), teller)
    disk = disk_cache.open_cache()
    found = None if disk is None else disk.find(request)
    if disk is not None and found is not None:
        _tell(request, "found on disk", start)
        return _from_disk(request, compile_, disk, found)
    compiled = compile_()
    _tell(request, "compiled", start)

    def assembled() -> Program:
        return cuda_program.load_program(_cubin(request, compiled, disk), compiled.facts, None)

    return Executable(compiled.facts, compiled.captures, in_background(assembled), teller)


def _at_once(program: Program) -> Future[Program]:
    done: Future[Program] = Future()
    done.set_result(program)
    return done


def _from_disk(
    request: Request, compile_: Callable[[], CompiledKernel], disk: DiskCache, found: Found
) -> Executable:
    def assemble_again() -> bytes:
        """Assemble a rejected cubin again; the facts of the cached one must still hold."""
        disk.store.remove(found.cubin_key)
        compiled = compile_()
        if disk.cubin_key(compiled) != found.cubin_key:
            raise LaunchError(
                f"{compiled.facts.name} has changed while its code was loaded; launch it again"
            )
        return _cubin(request, compiled, disk)

    program = cuda_program.load_program(found.cubin, found.facts, assemble_again)
    return Executable(found.facts, found.captures, _at_once(program), SpillTeller(request))


def _cubin(request: Request, compiled: CompiledKernel, disk: DiskCache | None) -> bytes:
    """The cubin of a kernel, from disk or from the assembler."""
    specialization = request.specialization

    def assemble() -> bytes:
        start = time.perf_counter()
        level = specialization.hints.opt_level
        try:
            made = cuda_program.assemble(compiled.module, specialization.target, level)
        except ToolchainError as error:
            raise refused_tile(error, request) or error from None
        _tell(request, "assembled", start)
        return made

    if disk is None:
        return assemble()
    key = disk.cubin_key(compiled)
    with disk.making(key):
        cubin = disk.store.get(key)
        if cubin is None:
            cubin = assemble()
            disk.store.put(key, cubin)
        disk.keep(request, compiled, key)
    return cubin


def _tell(request: Request, done: str, start: float) -> None:
    """Log a step of a compilation with its duration."""
    if _log.isEnabledFor(logging.DEBUG):
        took = 1e3 * (time.perf_counter() - start)
        what = describe(request.signature, request.specialization)
        _log.debug("tilewright: %s: %s in %.1f ms", what, done, took)
