"""The exception tree: every exception a user can catch. `diagnostics` formats source excerpts.

TilewrightError
├── CompileError            a kernel is refused; carries all its diagnostics
├── CompileErrors           several at once, an `ExceptionGroup` of `tw.compile_all`
├── LaunchError             a launch is refused: rank, shape, dtype, device, grid, precondition
├── BorrowError             two operations conflict, and no order between them is fixed
├── MovedError              a tensor was handed over with `tw.move` and used again
├── KernelFailure           a kernel reported a failure while it ran
│   ├── OutOfBoundsError    an index left its axis
│   ├── KernelAssertionError
│   └── UndefinedBehaviourError   the CPU backend reached undefined behaviour
├── OutOfMemoryError
├── MalformedBytecodeError  bytes that are no Tile IR bytecode, with the place and the reason
├── MalformedTextError      text that is no Tile IR, with the place and the expected token
├── ToolchainError          tileiras, ptxas or libnvvm is missing, mismatched or failed
├── DriverError             a CUDA driver call failed
├── TuneError               a search space, a configuration or a tuning record is wrong
└── InternalError           a mistake of tilewright's own: please report it

CacheWarning                a folder of the cache is not used; a `UserWarning`, not an error
ExtentWarning               an output's extent ties to nothing; a `UserWarning`, not an error
PaddingWarning              padding takes part in a reduction; a `UserWarning`, not an error
PerformanceWarning          a kernel's tiles do not fit the registers; a `UserWarning`, not an error
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BorrowError",
    "CacheWarning",
    "CompileError",
    "CompileErrors",
    "DriverError",
    "ExtentWarning",
    "InternalError",
    "KernelAssertionError",
    "KernelFailure",
    "LaunchError",
    "MalformedBytecodeError",
    "MalformedTextError",
    "MovedError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "PaddingWarning",
    "PerformanceWarning",
    "StoppedError",
    "TilewrightError",
    "ToolchainError",
    "TuneError",
    "UndefinedBehaviourError",
]


class TilewrightError(Exception):
    """Base of every exception that tilewright raises on purpose."""


class CompileError(TilewrightError):
    """A kernel was refused. The text shows every independent problem with its source line."""

    def __init__(self, text: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class CompileErrors(TilewrightError, ExceptionGroup[Exception]):
    """Some of many compilations failed; `exceptions` are the causes, with notes of their names."""

    def derive(self, errors: Sequence[Exception], /) -> CompileErrors:  # type: ignore[override]
        """A group of some of the causes, for `except*`."""
        return CompileErrors(self.message, errors)


class LaunchError(TilewrightError):
    """A launch was refused before any work was submitted."""


class BorrowError(TilewrightError):
    """An operation conflicts with a borrow of another one that is not submitted yet."""


class MovedError(TilewrightError):
    """A tensor was used after it had been handed over."""


class KernelFailure(TilewrightError):
    """A kernel ran and reported a failure; process, stream and context stay usable."""


class OutOfBoundsError(KernelFailure):
    """An index left its axis. The kernel used the nearest valid index (or skipped the write).

    `line` is the line of the access, `axis` the indexed axis, `index` and `extent` the index and
    the number of valid ones, `block` the block's coordinates in the logical grid.
    """

    def __init__(
        self,
        text: str,
        *,
        line: int | None = None,
        axis: int | None = None,
        index: int | None = None,
        extent: int | None = None,
        block: tuple[int, ...] = (),
    ) -> None:
        super().__init__(text)
        self.line = line
        self.axis = axis
        self.index = index
        self.extent = extent
        self.block = block


class KernelAssertionError(KernelFailure):
    """An `assert` in a kernel was false. The kernel went on.

    `message` is the text of the statement, `line` its line, `block` the block's coordinates in the
    logical grid.
    """

    def __init__(
        self,
        text: str,
        *,
        message: str = "",
        line: int | None = None,
        block: tuple[int, ...] = (),
    ) -> None:
        super().__init__(text)
        self.message = message
        self.line = line
        self.block = block


class UndefinedBehaviourError(KernelFailure):
    """The CPU backend reached undefined behaviour of Tile IR, and did not perform it."""


class StoppedError(KernelFailure):
    """A running kernel was interrupted, by Ctrl-C for example. Its outputs are incomplete."""


class OutOfMemoryError(TilewrightError):
    """The device has no memory left for a tensor."""


class MalformedBytecodeError(TilewrightError):
    """Bytes are not Tile IR bytecode, or encode a module that Tile IR does not allow."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.reason = reason
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.offset)


class MalformedTextError(TilewrightError):
    """A text is not Tile IR. Lines and columns count from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.line, self.column)


class ToolchainError(TilewrightError):
    """tileiras, ptxas or libnvvm is missing, of mixed releases, or failed."""


class DriverError(TilewrightError):
    """A CUDA driver call failed."""


class TuneError(TilewrightError):
    """A search space, a configuration or a tuning record is wrong, or no configuration is left."""


class InternalError(TilewrightError):
    """A mistake of tilewright's own. Please report it with the kernel that caused it."""


class CacheWarning(UserWarning):
    """A folder of the cache cannot be used: kernels are compiled again in every process."""


class ExtentWarning(UserWarning):
    """The extent of an output is tied to no extent of its inputs, or an input's to no output's."""


class PaddingWarning(UserWarning):
    """A reduction combines elements outside the tensor, and their padding is not its identity."""


class PerformanceWarning(UserWarning):
    """The tiles of a kernel do not fit the registers of its threads, so it runs slowly."""
