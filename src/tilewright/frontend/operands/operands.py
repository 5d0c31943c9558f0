"""Operands: the values of expressions while a kernel is lowered.

Only `TileOperand` has a value in the IR. Tensors, partitions, pieces, minted indices, tuples,
dtypes and functions are compile-time aggregates: a loop cannot carry them and a branch cannot
choose between them. A `Static` number has no dtype until it meets a tile. The text of an operand
names it in a message: `this is {operand}`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from tilewright.dtypes import DType
from tilewright.frontend.operands.shown_values import shown_value
from tilewright.frontend.operands.tensor_operands import (
    AccumOperand,
    MappedOperand,
    PieceOperand,
    RefOperand,
    SegmentedPiece,
    TensorOperand,
)
from tilewright.ir.op import Value
from tilewright.ir.types import Padding, TileType
from tilewright.lang.builtin import Builtin
from tilewright.source import Span

__all__ = [
    "AccumOperand",
    "BuiltinOperand",
    "ChosenNumbers",
    "ClassOperand",
    "DTypeOperand",
    "EnumOperand",
    "FunctionOperand",
    "Grid",
    "Identity",
    "LambdaOperand",
    "MappedOperand",
    "Method",
    "Minted",
    "ModuleOperand",
    "Operand",
    "PartitionOperand",
    "PieceOperand",
    "PiecePartition",
    "PointerOperand",
    "Poison",
    "PythonFunction",
    "RecordOperand",
    "RefOperand",
    "SegmentedPiece",
    "Static",
    "TensorOperand",
    "TileOperand",
    "TupleOperand",
    "Unset",
    "WalkRange",
]


class Identity:
    """A member of an enum that is no number and no string, compared by identity.

    Equal to itself alone, true, without order; its text is its name.
    """

    def __init__(self, member: Enum) -> None:
        self._member = member

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._member is other._member

    def __hash__(self) -> int:
        return id(self._member)

    def __repr__(self) -> str:
        return shown_value(self._member)


@dataclass(frozen=True)
class Static:
    """A compile-time Python value: a number, a truth value, None, a string, an `Enum` member.

    The value of a member is its number or string (`IntEnum`, `StrEnum`), or an `Identity`.
    """

    value: Any
    member: Enum | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return shown_value(self.value if self.member is None else self.member)


@dataclass(frozen=True, eq=False)
class TileOperand:
    """A tile; rank 0 is a scalar. `weak` marks a literal with its default dtype."""

    value: Value
    dtype: type[DType]
    weak: bool = False
    chosen: ChosenNumbers | None = None  # its two literals, if `tw.where` chose between them

    @property
    def has_own_dtype(self) -> bool:
        """Whether its dtype is more than the default of a literal."""
        return not self.weak and self.chosen is None

    @property
    def type(self) -> TileType:
        """The IR type."""
        assert isinstance(self.value.type, TileType)
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; empty for a scalar."""
        return self.type.shape

    def __str__(self) -> str:
        article = "an" if self.dtype.label[0] in "if" else "a"
        if not self.shape:
            return f"{article} {self.dtype.label} scalar"
        return f"{article} {self.dtype.label} tile of shape {self.shape}"


@dataclass(frozen=True, eq=False)
class ChosenNumbers:
    """`tw.where` of two numbers: takes the dtype of the tile that it meets, like a literal.

    A tile computed from it keeps the default dtype of its literals.
    """

    condition: TileOperand
    numbers: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Grid:
    """The logical grid of a launch: its extents, and this block's index."""

    counts: tuple[Value, ...]
    index: tuple[Value, ...]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.counts)


@dataclass(frozen=True, eq=False)
class PointerOperand:
    """A pointer, or a tile of pointers."""

    value: Value
    dtype: type[DType]  # of the pointed-to elements

    @property
    def type(self) -> TileType:
        """The IR type."""
        assert isinstance(self.value.type, TileType)
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; empty for a single pointer."""
        return self.type.shape

    def __str__(self) -> str:
        of = f" of shape {self.shape}" if self.shape else ""
        return f"{'pointers' if self.shape else 'a pointer'} to {self.dtype.label}{of}"


@dataclass(frozen=True, eq=False)
class PartitionOperand:
    """A read-only tensor seen as tiles; axis `a` runs along axis `order[a]` of the tensor.

    Tiles start every `steps[a]` elements, their extent except for windows, plus `starts[a]`.
    """

    tensor: RefOperand
    tile: tuple[int, ...]
    steps: tuple[int, ...]
    order: tuple[int, ...]
    padding: Padding | None  # None where all tiles lie inside the tensor
    starts: tuple[int, ...] = ()  # less than a tile away from zero
    is_whole: bool = False  # a partial tile at the edge is none of the tiles

    @property
    def rank(self) -> int:
        """Number of indices of one tile."""
        return len(self.tile)

    def __str__(self) -> str:
        noun = "a partition" if self.steps == self.tile else "the windows"
        return f"{noun} of `{self.tensor.name}`"


@dataclass(frozen=True, eq=False)
class PiecePartition:
    """This block's piece cut into parts. `counts` are those that begin inside the tensor.

    An index stays below `limits`: the same number, or for ragged rows all parts of a full piece,
    since those after its last row are masked.
    """

    piece: PieceOperand
    tile: tuple[int, ...]
    counts: tuple[Value, ...]
    limits: tuple[Value, ...]
    is_inside: bool = False  # every part lies inside the tensor
    is_whole: bool = False  # a partial part at the edge is none of the parts

    def __str__(self) -> str:
        return f"a partition of output `{self.piece.name}`"


@dataclass(frozen=True, eq=False)
class WalkRange:
    """`z.indices…()`, for a `for` only. The first output is the receiver of the call."""

    outputs: tuple[MappedOperand, ...]
    ranges: Mapping[int, tuple[Value, Value]]  # start and stop, for axes of a sub-range
    span: Span

    def __str__(self) -> str:
        return f"the walk of `{self.outputs[0].name}`"


@dataclass(eq=False)
class Minted:
    """An index minted by a walk, valid for its outputs. `open` is false once the loop has ended."""

    outputs: tuple[str, ...]
    coordinates: tuple[TileOperand, ...]
    span: Span
    open: bool = True

    def __str__(self) -> str:
        return f"an index of `{self.outputs[0]}`"


class _Holder:
    """An operand that holds others."""

    items: tuple[Operand, ...]

    @cached_property
    def size(self) -> int:
        """Number of operands in it, itself included; a shared one counts wherever it stands."""
        return 1 + sum(item.size if isinstance(item, _Holder) else 1 for item in self.items)


@dataclass(frozen=True, eq=False)
class TupleOperand(_Holder):
    """A tuple of operands; `kind` is the class of a named tuple."""

    items: tuple[Operand, ...]
    kind: type | None = None

    def __str__(self) -> str:
        return f"a tuple of {len(self.items)}" if self.kind is None else f"a {self.kind.__name__}"


@dataclass(frozen=True, eq=False)
class RecordOperand(_Holder):
    """An instance of a dataclass; `items` are its fields in order."""

    items: tuple[Operand, ...]
    kind: type

    def __str__(self) -> str:
        return f"a {self.kind.__name__}"


@dataclass(frozen=True, eq=False)
class ClassOperand:
    """A dataclass or a named tuple, called to make an instance."""

    kind: type

    def __str__(self) -> str:
        return f"the class `{self.kind.__name__}`"


@dataclass(frozen=True, eq=False)
class EnumOperand:
    """An `Enum` class, whose members are looked up at compile time."""

    kind: type[Enum]

    def __str__(self) -> str:
        return f"the class `{self.kind.__name__}`"


@dataclass(frozen=True)
class DTypeOperand:
    """A dtype used as a value."""

    dtype: type[DType]

    def __str__(self) -> str:
        return f"the dtype {self.dtype.label}"


@dataclass(frozen=True, eq=False)
class BuiltinOperand:
    """A function of the language, like `tw.exp`; a partial one has some arguments bound."""

    builtin: Builtin[..., Any]
    args: tuple[Operand, ...] = ()
    keywords: tuple[tuple[str, Operand], ...] = ()

    def __str__(self) -> str:
        return f"the function `tw.{self.builtin.name}`"


@dataclass(frozen=True, eq=False)
class FunctionOperand:
    """A plain Python function, inlined where it is called; a partial one has arguments bound."""

    function: FunctionType
    args: tuple[Operand, ...] = ()
    keywords: tuple[tuple[str, Operand], ...] = ()

    @property
    def name(self) -> str:
        """The name in its `def`."""
        return self.function.__name__.strip("<>")

    def __str__(self) -> str:
        return f"the function `{self.name}`"


@dataclass(frozen=True, eq=False)
class LambdaOperand(_Holder):
    """A lambda or a `def` inside a kernel or a helper, with the frame it stands in.

    `items` are its captured values from frames that have ended; all other names are looked up when
    it is called, as Python does.
    """

    node: ast.Lambda | ast.FunctionDef
    frame: Any  # a `frames.Frame`, which imports this module
    names: tuple[str, ...] = ()
    items: tuple[Operand, ...] = ()

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    def __str__(self) -> str:
        is_named = isinstance(self.node, ast.FunctionDef)
        return f"the function `{self.name}`" if is_named else f"a lambda of line {self.node.lineno}"


@dataclass(frozen=True, eq=False)
class PythonFunction:
    """One of the Python built-ins that kernels support, such as `range`."""

    function: Any

    def __str__(self) -> str:
        return f"the built-in `{self.function.__name__}`"


@dataclass(frozen=True, eq=False)
class ModuleOperand:
    """A module, whose attributes are looked up at compile time."""

    module: ModuleType

    @property
    def names(self) -> dict[str, Any]:
        """Its own names: the attributes that no code of the module makes."""
        found: dict[str, Any] = ModuleType.__getattribute__(self.module, "__dict__")
        return found

    @property
    def name(self) -> str:
        """The name that it was imported by."""
        found = self.names.get("__name__")
        return found if type(found) is str else "without a name"

    def __str__(self) -> str:
        return f"the module `{self.name}`"


@dataclass(frozen=True, eq=False)
class Method:
    """A method with the operand it belongs to."""

    name: str
    receiver: Operand
    lower: Callable[..., Operand] = field(repr=False)

    def __str__(self) -> str:
        return f"the method `{self.name}`"


@dataclass(frozen=True)
class Unset:
    """A name without a single value here, the reason, and the way out."""

    reason: str
    way_out: str


class Poison:
    """The result of a reported problem; problems that derive from it are not reported."""


Operand = (
    Static | TileOperand | PointerOperand | RefOperand | PieceOperand | MappedOperand | AccumOperand
    | PartitionOperand | PiecePartition | WalkRange | Minted | TupleOperand | DTypeOperand
    | BuiltinOperand | FunctionOperand | LambdaOperand | PythonFunction | ModuleOperand | Method
    | RecordOperand | ClassOperand | EnumOperand | Unset | Poison
)  # fmt: skip
