"""Problems of accumulators: reads and plain stores, and accumulations that are not atomic."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Label, Problem
from tilewright.source import Span

__all__ = ["MixedAccumulation", "NotAtomic", "NotAtomicOnTarget", "OnlyAccumulates"]


@dataclass(frozen=True)
class OnlyAccumulates(Problem):
    """A read of an accumulator, or a plain store to it."""

    code = "ownership"

    name: str
    is_store: bool

    @property
    def title(self) -> str:
        deed = "stored to" if self.is_store else "read"
        return f"`{self.name}` is an Accum: it is accumulated into, and cannot be {deed}"

    @property
    def notes(self) -> tuple[str, ...]:
        if self.is_store:
            return ("all blocks share it: a plain store would race with updates of other blocks",)
        return ("its value is not defined before the launch ends: other blocks still accumulate",)

    @property
    def helps(self) -> tuple[str, ...]:
        if self.is_store:
            return (
                f"`{self.name}.add(tile, i)` accumulates; to overwrite, declare it as a Mut or a "
                f"Mapped, or fill it before the launch",
            )
        return ("read it in the next launch, where it is a Ref",)


@dataclass(frozen=True)
class MixedAccumulation(Problem):
    """Two kinds of accumulation into one parameter, whose result depends on the block order."""

    code = "ownership"

    name: str
    kind: str
    earlier_kind: str
    earlier: Span

    @property
    def title(self) -> str:
        return (
            f"`{self.name}` is accumulated into by `{self.kind}` and by `{self.earlier_kind}`: "
            f"one kind for each parameter of a kernel"
        )

    @property
    def label(self) -> str:
        return f"`{self.kind}` here"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.earlier, f"`{self.earlier_kind}` here"),)

    @property
    def notes(self) -> tuple[str, ...]:
        return ("with both, the result would depend on which block comes first",)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("use a parameter for each kind, or two launches",)


@dataclass(frozen=True)
class NotAtomic(Problem):
    """An accumulation that is atomic on no target for this dtype."""

    code = "types"

    call: str
    dtype: str
    possible: str  # the dtypes on which it is atomic
    way_out: str

    @property
    def title(self) -> str:
        return f"`{self.call}` cannot be done atomically on {self.dtype}; it can on {self.possible}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class NotAtomicOnTarget(Problem):
    """An accumulation that is atomic for this dtype on later targets only."""

    code = "target"

    call: str
    dtype: str
    target: str
    first: str

    @property
    def title(self) -> str:
        return (
            f"`{self.call}` cannot be done atomically on {self.dtype} on {self.target}; "
            f"the first that can is {self.first}"
        )

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"accumulate in f32, or compile for {self.first}",)
