"""Runs compiled kernels over a grid of blocks, on one thread or several.

`compile_function` and `compile_module` are the CPU backend's only entries for the layers above. A
kernel's only state is the time that its blocks took: several threads may run the same one at once.
The first failure stops the run; of the failures seen, that of the lowest block is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import inf, prod
from time import perf_counter

import numpy as np

from tilewright.backends.cpu.blas import one_thread_each
from tilewright.backends.cpu.compiler import CompiledSource, RunBlock, translate
from tilewright.backends.cpu.cores import CORES
from tilewright.backends.cpu.faults import Fault
from tilewright.backends.cpu.globals import CpuGlobals
from tilewright.backends.cpu.memory import AddressSpace, KernelMemory
from tilewright.backends.cpu.races import Record, find_race
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.workers import WORKERS
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.function import Function, Module
from tilewright.ir.ops.addresses import GetGlobal
from tilewright.runtime.devices.process import usable_cores

__all__ = ["CpuKernel", "compile_function", "compile_module"]

Grid = tuple[int, int, int]

# A thread that joins takes a while to start, and on a busy machine to end.
_SECONDS_WORTH_A_THREAD = 0.001
_LONG_SECONDS = 0.02


def compile_function(
    function: Function, module: Module | None = None, *, limit: int | None = None
) -> CpuKernel:
    """Compile a function of pure Tile IR, to be run any number of times.

    Only the globals that the function uses are allocated. Its constants, its globals and the tiles
    of one block may not hold more than `limit` bytes at once.
    """
    asked = {op.name for op in function.walk() if isinstance(op, GetGlobal)}
    held = () if module is None else module.globals
    placed = CpuGlobals([one for one in held if one.name in asked], limit)
    return CpuKernel(function, placed, limit=limit)


def compile_module(module: Module, *, as_gpus: bool = False) -> dict[str, CpuKernel]:
    """Compile every function of a module, by name; they share the module's globals.

    Undefined behaviour is reported. With `as_gpus` two cases of it, on which programs of other
    producers rely, follow GPUs: a tile wholly outside its view is padding, and a float becomes a
    truth value by comparison with zero.
    """
    globals_ = CpuGlobals(module.globals)
    return {
        function.name: CpuKernel(function, globals_, as_gpus=as_gpus)
        for function in module.functions
    }


class CpuKernel:
    """One function, ready to run."""

    def __init__(
        self,
        function: Function,
        globals: CpuGlobals,
        *,
        as_gpus: bool = False,
        limit: int | None = None,
    ) -> None:
        self._function = function
        self._globals = globals
        self._as_gpus = as_gpus
        self._limit = None if limit is None else limit - globals.nbytes
        self._program = self._translated(watched=False)
        self._block_seconds = inf  # of one thread, as measured by the last run

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._program.name

    @property
    def source(self) -> str:
        """Python source that runs."""
        return self._program.source

    @cached_property
    def _watched(self) -> CompiledSource:
        return self._translated(watched=True)

    def _translated(self, *, watched: bool) -> CompiledSource:
        return translate(
            self._function,
            self._globals.addresses,
            watched=watched,
            as_gpus=self._as_gpus,
            limit=self._limit,
        )

    def run(
        self,
        grid: Grid,
        arguments: Sequence[float],
        memories: Sequence[KernelMemory],
        *,
        threads: int | None = None,
        race_check: bool = False,
        stop: Stop | None = None,
    ) -> None:
        """Run every block of a grid; return when all are done, or raise the reason to stop.

        `arguments` are the parameters in order, a pointer as its address. Only `memories` are
        accessed. The kernel's tiles determine `threads` unless it is given; outputs do not depend
        on it. With `race_check`, unordered accesses of one element of which one writes are reported
        at the end of the run: between two blocks, or within one block where no token orders them.
        """
        blocks = prod(grid)
        if blocks == 0:
            return
        is_long = blocks * self._block_seconds > _LONG_SECONDS
        wanted = min(blocks, threads or self._worthwhile_threads(blocks))
        workers = CORES.take(wanted, is_long=is_long)
        try:
            given = min(blocks, threads) if threads else workers
            self._run(grid, arguments, memories, given, race_check, stop or Stop())
        finally:
            CORES.give_back(workers)

    def _run(
        self,
        grid: Grid,
        arguments: Sequence[float],
        memories: Sequence[KernelMemory],
        workers: int,
        race_check: bool,
        stop: Stop,
    ) -> None:
        blocks = prod(grid)
        program = self._watched if race_check else self._program
        chunk = max(1, blocks // (workers * 8))
        work = _Work(program, grid, blocks, chunk, stop)
        everything = (*memories, *self._globals.memories)
        space = AddressSpace(everything, remembers=race_check)
        is_shared = program.multiplies and (workers > 1 or not CORES.are_free())
        with np.errstate(all="ignore"):
            work.enter(space, program.convert(arguments))
            start = perf_counter()
            if is_shared:
                with one_thread_each():
                    _share(work, workers)
            else:
                _share(work, workers)
        self._block_seconds = (perf_counter() - start) * workers / blocks
        work.raise_failure()
        if not race_check:
            return
        race = find_race(work.records, program.sites, space)
        if race is not None:
            raise UndefinedBehaviourError(race.describe(self.name, program.sites))

    def _worthwhile_threads(self, blocks: int) -> int:
        if not self._program.threads_pay or blocks * self._block_seconds < _SECONDS_WORTH_A_THREAD:
            return 1
        if self._limit is None:
            return usable_cores()
        return max(1, min(usable_cores(), self._limit // max(self._program.nbytes, 1)))


def _share(work: _Work, workers: int) -> None:
    """Run the work in this thread, and in threads of the pool that are free in the meantime."""
    if workers == 1:
        work.take_part()
        return
    helpers = [_Helper(work) for _ in range(workers - 1)]
    try:
        for helper in helpers:
            WORKERS.give(helper.run)
        work.take_part()
        _dismiss(helpers)
    except BaseException as error:  # from a signal handler
        work.stop.ask(error)
        _dismiss(helpers)
        raise


def _dismiss(helpers: Sequence[_Helper]) -> None:
    """Wait until no helper runs blocks, or ever will: threads write as long as they run blocks."""
    for helper in helpers:
        helper.dismiss()


class _Helper:
    """A part in some work for a thread of the pool; one that starts too late has none.

    The lock is held while the thread runs blocks.
    """

    __slots__ = ("_is_dismissed", "_lock", "_work")

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_dismissed = False

    def run(self) -> None:
        """Take part, unless all blocks are done."""
        with self._lock:
            if not self._is_dismissed:
                with np.errstate(all="ignore"):
                    self._work.take_part()

    def dismiss(self) -> None:
        """Wait for the thread if it takes part, and keep it from starting later."""
        self._is_dismissed = True
        with self._lock:
            pass


@dataclass(eq=False)
class _Work:
    """The blocks of one run, distributed in chunks to its threads."""

    program: CompiledSource
    grid: Grid
    blocks: int
    chunk: int
    stop: Stop
    failures: list[tuple[int, BaseException]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def enter(self, space: AddressSpace, arguments: list[object]) -> None:
        """Run the uniform part; its faults count as those of block 0."""
        self._chunks = count()  # `next` on it is atomic
        try:
            lock, stop = threading.Lock(), self.stop.reasons
            self._run: RunBlock = self.program.enter(
                space, lock, self.records.append, stop, *self.grid, *arguments
            )
        except Fault as fault:
            self.failures.append((0, fault))
            self.raise_failure()

    def take_part(self) -> None:
        """Run chunks until none is left or a block has failed."""
        while not self.failures:
            first = next(self._chunks) * self.chunk
            if first >= self.blocks:
                return
            self._run_chunk(first, min(first + self.chunk, self.blocks))

    def _run_chunk(self, first: int, end: int) -> None:
        columns, rows, _ = self.grid
        run, stop, number = self._run, self.stop.reasons, first
        try:
            if columns == self.blocks:
                for number in range(first, end):
                    if stop:
                        raise stop[0]
                    run(number, 0, 0)
            else:
                for number in range(first, end):
                    if stop:
                        raise stop[0]
                    run(number % columns, number // columns % rows, number // (columns * rows))
        except BaseException as failure:  # noqa: BLE001 - re-raised by the calling thread
            self.failures.append((number, failure))
            if not isinstance(failure, Fault):
                self.stop.ask(failure)  # other threads may be in a loop that does not end

    def raise_failure(self) -> None:
        """Raise the failure of the lowest block, if there is one."""
        if not self.failures:
            return
        number, failure = min(self.failures, key=lambda found: found[0])
        if isinstance(failure, Fault):
            columns, rows, _ = self.grid
            block = (number % columns, number // columns % rows, number // (columns * rows))
            site = self.program.sites[failure.site]
            raise failure.failure(self.program.name, site, block) from None
        raise failure
