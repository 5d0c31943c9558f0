"""Problems of types: dtypes, shapes and kinds of operands."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.diagnostics import Label, Problem
from tilewright.dtypes import DType
from tilewright.source import Span

__all__ = [
    "CarriedTypeChange",
    "ConditionIsATile",
    "IndexCount",
    "LiteralDoesNotFit",
    "MixedDTypes",
    "MmaDTypes",
    "MmaShapes",
    "NoSuchAxis",
    "NotBroadcastable",
    "NotPowerOfTwo",
    "NotStatic",
    "ScaledDTypes",
    "TileTooLarge",
    "UnsupportedByTarget",
    "WrongOperand",
    "WrongStoreDType",
    "WrongStoreShape",
]


@dataclass(frozen=True)
class TypeProblem(Problem):
    """Base of the family."""

    code = "types"


@dataclass(frozen=True)
class WrongOperand(TypeProblem):
    """An operand of a kind that the operation does not take."""

    what: str
    reason: str
    way_out: str = ""

    @property
    def title(self) -> str:
        return f"{self.what}: {self.reason}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,) if self.way_out else ()


@dataclass(frozen=True)
class MixedDTypes(TypeProblem):
    """Two dtypes in one operation."""

    operation: str
    left: str
    right: str

    @property
    def title(self) -> str:
        return f"{self.operation} mixes {self.left} and {self.right}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"convert one of them: `.astype({self.left})` or `.astype({self.right})`",)


@dataclass(frozen=True)
class NotBroadcastable(TypeProblem):
    """Two shapes that do not broadcast."""

    operation: str
    left: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"{self.operation}: shapes {self.left} and {self.right} do not fit together"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("from the last axis on, extents must be equal or one; `t[:, None]` adds an axis",)


@dataclass(frozen=True)
class LiteralDoesNotFit(TypeProblem):
    """A Python number that a dtype cannot hold."""

    value: str
    dtype: str
    way_out: str = ""

    @property
    def title(self) -> str:
        return f"{self.value} does not fit {self.dtype}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,) if self.way_out else ()


@dataclass(frozen=True)
class WrongStoreShape(TypeProblem):
    """A tile of another shape than the place it is stored to."""

    name: str
    wanted: tuple[int, ...]
    got: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"`{self.name}` takes tiles of shape {self.wanted}; this one has shape {self.got}"

    @property
    def helps(self) -> tuple[str, ...]:
        extents = ", ".join(map(str, self.wanted))
        if not self.got:
            return (f"`tw.full(({extents},), value, {self.name}.dtype)` makes a tile of it",)
        if prod(self.got) == prod(self.wanted):
            return (f"`.reshape({extents})` if that is meant",)
        ends = zip(reversed(self.got), reversed(self.wanted), strict=False)
        if all(got in (1, wanted) for got, wanted in ends) and len(self.got) <= len(self.wanted):
            return (f"`.broadcast_to({extents})` if that is meant",)
        return (f"`{self.name}.tile` is the shape that it takes",)


@dataclass(frozen=True)
class WrongStoreDType(TypeProblem):
    """A tile of another dtype than the place it is stored to."""

    name: str
    wanted: str
    got: str

    @property
    def title(self) -> str:
        return f"`{self.name}` holds {self.wanted}; this tile is {self.got}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"convert it: `.astype({self.name}.dtype)`",)


@dataclass(frozen=True)
class NotPowerOfTwo(TypeProblem):
    """A tile extent that is no power of two."""

    what: str
    shape: tuple[int, ...]
    way_out: str

    @property
    def title(self) -> str:
        return f"{self.what} has shape {self.shape}; every extent of a tile is a power of two"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class TileTooLarge(TypeProblem):
    """More elements than a tile can have."""

    shape: tuple[int, ...]
    limit: int
    dtype: type[DType] | None = None  # None where it is not known yet

    @property
    def title(self) -> str:
        count = prod(self.shape)
        nbytes = "" if self.dtype is None else self._nbytes(self.dtype, count)
        return (
            f"a tile of shape {self.shape} has {count:,} elements{nbytes}; "
            f"the most a tile can have is {self.limit:,}"
        )

    @staticmethod
    def _nbytes(dtype: type[DType], count: int) -> str:
        return f", {count * dtype.element.bits // 8:,} bytes of {dtype.label}"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("work on it in smaller tiles, in a loop",)


@dataclass(frozen=True)
class NotStatic(TypeProblem):
    """A value that must be known when the kernel is compiled."""

    what: str
    got: str

    @property
    def title(self) -> str:
        return f"{self.what} must be known when the kernel is compiled; this is {self.got}"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("use a number, a `Const` parameter, or a dim of a Mut or Mapped",)


@dataclass(frozen=True)
class ConditionIsATile(TypeProblem):
    """`if` on a tile of more than one truth value."""

    shape: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"a condition is one truth value; this tile has shape {self.shape}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            "choose by element with `tw.where(condition, a, b)`",
            "join tiles of truth values with `&`, `|` and `~`",
        )


@dataclass(frozen=True)
class IndexCount(TypeProblem):
    """Too few or too many indices for the axes."""

    what: str
    rank: int
    got: int
    nouns: tuple[str, str] = ("index", "indices")

    @property
    def title(self) -> str:
        axes = "1 axis" if self.rank == 1 else f"{self.rank} axes"
        noun = self.nouns[self.rank != 1]
        return f"{self.what} has {axes} and takes {self.rank} {noun}, not {self.got}"


@dataclass(frozen=True)
class NoSuchAxis(TypeProblem):
    """An axis outside the rank."""

    what: str
    axis: int
    rank: int

    @property
    def title(self) -> str:
        return f"{self.what} has no axis {self.axis}"

    @property
    def helps(self) -> tuple[str, ...]:
        if self.rank == 1:
            return ("its only axis is 0",)
        return (f"its axes are 0 to {self.rank - 1}",)


@dataclass(frozen=True)
class MmaShapes(TypeProblem):
    """Matrices whose inner dimensions or accumulator do not fit."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    acc: tuple[int, ...] | None  # None: `a @ b`, whose accumulator is made to fit

    @property
    def title(self) -> str:
        into = "" if self.acc is None else f" into {self.acc}"
        product = "`@`" if self.acc is None else "mma"
        return f"{product} of {self.left} and {self.right}{into}: {self._reason}"

    @property
    def _reason(self) -> str:
        shapes = [shape for shape in (self.left, self.right, self.acc) if shape is not None]
        ranks = {len(shape) for shape in shapes}
        if ranks != {2} and ranks != {3}:
            return "all must be matrices, or all batches of matrices"
        *batch, rows, inner = self.left
        if any([*shape[:-2]] != batch for shape in shapes):
            return "the batches differ"
        if inner != self.right[-2]:
            return f"the inner extents {inner} and {self.right[-2]} differ"
        return f"the result has shape {(*batch, rows, self.right[-1])}"

    @property
    def helps(self) -> tuple[str, ...]:
        is_matrix = len(self.left) == len(self.right) == 2
        if is_matrix and self.left[1] == self.right[1] != self.right[0]:
            return ("the right one seems to be transposed: use its `.T`",)
        return ("`a` is [M, K], `b` is [K, N] and `acc` is [M, N]",)


@dataclass(frozen=True)
class MmaDTypes(TypeProblem):
    """Matrices of dtypes that the tensor cores do not multiply."""

    left: str
    right: str
    acc: str
    allowed: str

    @property
    def title(self) -> str:
        return f"mma of {self.left} and {self.right} into {self.acc} does not exist"

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"`a` and `b` have one dtype; there are: {self.allowed}",)


@dataclass(frozen=True)
class ScaledDTypes(TypeProblem):
    """Matrices and scales of dtypes that are not multiplied together."""

    labels: tuple[str, ...]  # of both matrices, the sum and both scales
    allowed: str

    @property
    def title(self) -> str:
        a, b, acc, left, right = self.labels
        return (
            f"mma_scaled of {a} and {b} into {acc} with scales of {left} and {right} does not exist"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            f"`a` and `b` have one dtype, so have their scales, and the sum is f32; there are: "
            f"{self.allowed}",
        )


@dataclass(frozen=True)
class CarriedTypeChange(TypeProblem):
    """A loop-carried value that changes its type."""

    name: str
    before: str
    after: str
    loop: Span

    @property
    def title(self) -> str:
        return (
            f"`{self.name}` is {self.before} before the loop and {self.after} after one turn of it"
        )

    @property
    def label(self) -> str:
        return "the value that the loop carries"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.loop, "this loop"),)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("a value that a loop hands on keeps its dtype and shape: convert it, or rename it",)


@dataclass(frozen=True)
class UnsupportedByTarget(Problem):
    """A dtype that this GPU does not have."""

    code = "target"

    dtype: str
    target: str
    first: str

    @property
    def title(self) -> str:
        return f"{self.dtype} does not exist on {self.target}; it came with {self.first}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"use another dtype, or compile for {self.first}",)
