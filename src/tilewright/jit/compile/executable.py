"""Executables: loaded from disk, or compiled and assembled.

For the CPU a compilation takes milliseconds, and nothing is cached on disk. For a GPU a miss of the
disk cache is compiled here, assembled in the background once for all processes, and cached. Each
step is logged, with its duration, to the loggers `tilewright.cache` and `tilewright.compile`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import InternalError, LaunchError, ToolchainError
from tilewright.frontend.signature.specialization import describe
from tilewright.frontend.source.captures import Captures
from tilewright.jit.cache.memory import in_background
from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Request
from tilewright.jit.compile.launch_warnings import SpillTeller, refused_tile
from tilewright.jit.loader import (
    Program,
    bundles,
    cpu_program,
    cuda_program,
    disk_cache,
    dumping,
)
from tilewright.settings import current_settings

if TYPE_CHECKING:
    from tilewright.jit.cache.disk import DiskCache, Found

__all__ = ["Executable", "make_executable"]

_cache_log = logging.getLogger("tilewright.cache")
_compile_log = logging.getLogger("tilewright.compile")


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
        program = _translated(request, compiled)
        _tell(_compile_log, request, "compiled", start)
        return Executable(compiled.facts, compiled.captures, _at_once(program), teller)
    disk = disk_cache.open_cache()
    found = None if disk is None or _is_dumped(request) else disk.find(request)
    if disk is not None and found is not None:
        _tell(_cache_log, request, "found on disk", start)
        return _from_disk(request, compile_, disk, found)
    _tell(_cache_log, request, "not on disk", start)
    compiled = compile_()
    _tell(_compile_log, request, "compiled", start)

    def assembled() -> Program:
        return cuda_program.load_program(_cubin(request, compiled, disk), compiled.facts, None)

    return Executable(compiled.facts, compiled.captures, in_background(assembled), teller)


def _translated(request: Request, compiled: CompiledKernel) -> Program:
    """The program for the CPU; a bug of the translation leaves a bundle."""
    try:
        return cpu_program.make_program(compiled.module)
    except InternalError as error:
        bundles.write_bundle(request, bundles.FRONT_END, error)
        raise


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
            refused = refused_tile(error, request)
            if refused is None and _has_tools():
                bundles.write_bundle(request, bundles.ASSEMBLER, error, compiled)
            raise refused or error from None
        _tell(_compile_log, request, "assembled", start)
        return made

    cubin = assemble() if disk is None else _kept_cubin(request, compiled, disk, assemble)
    if _is_dumped(request):
        dumping.dump_cubin(request, cubin)
    return cubin


def _kept_cubin(
    request: Request, compiled: CompiledKernel, disk: DiskCache, assemble: Callable[[], bytes]
) -> bytes:
    """The cubin from disk, or a new one, which is kept."""
    key = disk.cubin_key(compiled)
    with disk.making(key):
        cubin = disk.store.get(key)
        if cubin is None:
            cubin = assemble()
            disk.store.put(key, cubin)
        disk.keep(request, compiled, key)
    return cubin


def _is_dumped(request: Request) -> bool:
    """Whether a kernel is dumped; then it is compiled, even if it is on disk."""
    return current_settings().dump is not None and dumping.is_dumped(request)


def _has_tools() -> bool:
    """Whether there is an assembler, so that its failure is one of its own."""
    try:
        return bool(cuda_program.tools_version())
    except ToolchainError:
        return False


def _tell(log: logging.Logger, request: Request, done: str, start: float) -> None:
    """Log a step of a compilation with its duration."""
    if log.isEnabledFor(logging.DEBUG):
        took = 1e3 * (time.perf_counter() - start)
        what = describe(request.signature, request.specialization)
        log.debug("tilewright: %s: %s in %.1f ms", what, done, took)
