"""Problems of shared accumulation: what an Accum cannot do, and what cannot be done atomically."""

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
            return ("all blocks share it: a plain store would race with what others accumulate",)
        return ("what other blocks have accumulated so far is not defined before the launch ends",)

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
    """Two kinds of accumulation into one parameter: the order of the blocks would be seen."""

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
    """An accumulation that no target can do on this dtype."""

    code = "types"

    call: str
    dtype: str
    possible: str  # the dtypes that there are
    way_out: str

    @property
    def title(self) -> str:
        return f"`{self.call}` cannot be done atomically on {self.dtype}; it can on {self.possible}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class NotAtomicOnTarget(Problem):
    """An accumulation that this target cannot do on this dtype, and a later one can."""

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
