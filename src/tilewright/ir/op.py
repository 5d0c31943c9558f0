"""The declaration language of ops, and the SSA values that connect them.

An op is one class. Its annotated fields, made by `operand()`, `attr()`, `flag()`, `region()` and
`defined()`, are the single declaration that the builder, verifier, printer, encoder and CPU backend
read through `Op.fields`; no other code lists the parts of an op. Fields stand in the order in which
Tile IR's bytecode writes attributes, and operands in the order in which it writes operands.

    class AddF(Op, mnemonic="addf", opcode=0x02):
        '''Sum of two float tiles.'''

        lhs: Value = operand()
        rhs: Value = operand()
        rounding_mode: Rounding = attr(EnumCodec(Rounding), default=Rounding.NEAREST_EVEN)
        flush_to_zero: bool = flag(default=False)
        result: Value = defined()

Ops are immutable by convention once built: a pass replaces an op by a new one (`rebuilt`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, Literal, Self, dataclass_transform

from tilewright.dtypes import DType
from tilewright.ir.codecs import AttributeCodec
from tilewright.ir.types import Type
from tilewright.source import Location

__all__ = [
    "DEEPEST_NESTING",
    "Block",
    "Effect",
    "Field",
    "FieldKind",
    "Op",
    "Value",
    "Version",
    "attr",
    "defined",
    "defined_many",
    "first_type",
    "flag",
    "operand",
    "operands",
    "optional_operand",
    "region",
    "typed",
    "typed_all",
]

# A release of Tile IR, major and minor: required by a field or an op, targeted by a file.
Version = tuple[int, int]


# Deepest nesting of regions that file readers accept; each `elif` nests one region deeper.
DEEPEST_NESTING = 1024


class Value:
    """One SSA value. Compared by identity; `dtype` keeps the signedness that Tile IR drops."""

    __slots__ = ("dtype", "hint", "type")

    def __init__(self, type: Type, dtype: type[DType] | None = None, hint: str = "") -> None:
        self.type = type
        self.dtype = dtype
        self.hint = hint  # the author's name for the value, for readers of the IR

    def __repr__(self) -> str:
        return f"<{self.hint or 'value'}: {self.type}>"


class Block:
    """Ops in order, after block arguments. The last op is a terminator."""

    __slots__ = ("args", "ops")

    def __init__(self, args: tuple[Value, ...] = (), ops: list[Op] | None = None) -> None:
        self.args = args
        self.ops: list[Op] = [] if ops is None else ops

    def walk(self) -> Iterator[Op]:
        """Iterate over all ops, nested ones included, in program order."""
        pending = [iter(self.ops)]
        while pending:
            for op in pending[-1]:
                yield op
                if op.region_fields:
                    pending.extend(iter(block.ops) for block in reversed(op.regions))
                    break
            else:
                pending.pop()


class Effect(Enum):
    """Memory effect of an op. Passes test the effect, never a list of ops."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
    OBSERVE = auto()  # observable output: print, assert
    CONTROL = auto()  # a terminator


class FieldKind(Enum):
    """Role of a field: operand, attribute, region, result or note."""

    OPERAND = auto()
    OPERANDS = auto()
    OPTIONAL_OPERAND = auto()
    ATTR = auto()
    FLAG = auto()
    REGION = auto()
    RESULT = auto()
    RESULTS = auto()
    NOTE = auto()  # for readers and the front end; no part of the op's semantics

    @property
    def is_operand(self) -> bool:
        """Whether a field of this kind holds operands."""
        return self in (FieldKind.OPERAND, FieldKind.OPERANDS, FieldKind.OPTIONAL_OPERAND)


_ATTRIBUTE_KINDS = (FieldKind.ATTR, FieldKind.FLAG)
_RESULT_KINDS = (FieldKind.RESULT, FieldKind.RESULTS)
_REQUIRED: Any = object()


@dataclass(eq=False)
class Field:
    """One declared part of an op."""

    kind: FieldKind
    default: Any = _REQUIRED
    codec: AttributeCodec | None = None  # encoding and text of an attribute
    since: Version = (13, 1)
    optional: bool = False  # an attribute that may be None (marked by a bit in the flags)
    from_types: Callable[[tuple[Type, ...]], Any] | None = None  # derived from the result types
    name: str = ""

    @property
    def has_default(self) -> bool:
        """Whether a constructor may omit the field; results are never passed."""
        return self.default is not _REQUIRED and self.kind not in _RESULT_KINDS


def operand() -> Any:
    """Declare one operand."""
    return Field(FieldKind.OPERAND)


def operands(*, default: tuple[()]) -> Any:
    """Declare a variadic operand. Type checkers look for `default=` in a field's declaration."""
    return Field(FieldKind.OPERANDS, default=default)


def optional_operand(*, default: None = None, since: Version = (13, 1)) -> Any:
    """Declare an operand that may be absent."""
    return Field(FieldKind.OPTIONAL_OPERAND, default=default, since=since)


def attr(
    codec: AttributeCodec | None = None,
    *,
    default: Any = _REQUIRED,
    since: Version = (13, 1),
    optional: bool = False,
) -> Any:
    """Declare a compile-time attribute. Without a codec it is never encoded, as in internal ops."""
    return Field(FieldKind.ATTR, default, codec, since, optional)


def typed(*, default: Any = _REQUIRED) -> Any:
    """Declare the type of the first result, for ops whose operands do not determine it."""
    return Field(FieldKind.ATTR, default, from_types=first_type)


def typed_all(*, default: tuple[()]) -> Any:
    """Declare the types of all results, for ops whose operands do not determine them."""
    return Field(FieldKind.ATTR, default, from_types=lambda types: types)


def first_type(types: tuple[Type, ...]) -> Type:
    """Return the type that `typed` encodes: that of the first result, which must exist."""
    return types[0]


def flag(*, default: bool = False, since: Version = (13, 1)) -> Any:
    """Declare a boolean attribute, encoded as one bit in the op's flags."""
    return Field(FieldKind.FLAG, default, since=since)


def region() -> Any:
    """Declare a nested block."""
    return Field(FieldKind.REGION)


def defined(*, since: Version = (13, 1), init: Literal[False] = False) -> Any:
    """Declare one result, which the constructor makes from `result_types`."""
    return Field(FieldKind.RESULT, init, since=since)


def defined_many(*, init: Literal[False] = False) -> Any:
    """Declare a variadic result."""
    return Field(FieldKind.RESULTS, init)


def note(*, default: None) -> Any:
    """Declare data kept beside the op, outside its semantics."""
    return Field(FieldKind.NOTE, default)


@dataclass_transform(
    kw_only_default=True,
    eq_default=False,  # ops are compared by identity
    field_specifiers=(
        operand, operands, optional_operand, attr, typed, typed_all, flag, region, defined,
        defined_many, note,
    ),
)  # fmt: skip
class Declared:
    """Base class that tells type checkers to treat annotated fields as keyword arguments."""


class Op(Declared):
    """Base of all ops: fields by keyword, results made from the type rule."""

    mnemonic: ClassVar[str] = ""
    opcode: ClassVar[int | None] = None  # None: internal, lowered before encoding
    since: ClassVar[Version] = (13, 1)
    effect: ClassVar[Effect] = Effect.NONE
    segmented: ClassVar[bool] = False  # operands are encoded group by group
    assembly: ClassVar[str] = ""  # text form, read by the printer
    meaning: ClassVar[Callable[..., Any] | None] = None  # the equivalent NumPy function, if any
    fields: ClassVar[tuple[Field, ...]] = ()
    operand_fields: ClassVar[tuple[Field, ...]] = ()  # fields that hold operands
    region_fields: ClassVar[tuple[Field, ...]] = ()  # fields that hold regions
    attribute_names: ClassVar[tuple[str, ...]] = ()  # of fields that hold attributes
    part_names: ClassVar[frozenset[str]] = frozenset()  # of fields that a constructor takes
    defaults: ClassVar[Mapping[str, Any]] = {}  # of fields that a constructor may omit
    carries: ClassVar[bool] = False  # whether the op is a loop, whose body takes carried values
    result_names: ClassVar[tuple[str, ...]] = ()  # of fields with one result each
    rest_name: ClassVar[str] = ""  # of the variadic result

    loc: Location | None = note(default=None)  # position in the user's source
    dtype: type[DType] | None = note(default=None)  # of the results, with signedness

    def __init_subclass__(
        cls,
        *,
        mnemonic: str = "",
        opcode: int | None = None,
        since: Version = (13, 1),
        effect: Effect | None = None,
        segmented: bool = False,
        assembly: str = "",
        meaning: Callable[..., Any] | None = None,
    ) -> None:
        declared = {field.name: field for field in cls.fields}
        declared.update(_take_fields(cls))
        cls.fields = tuple(declared.values())
        cls.operand_fields = tuple(f for f in cls.fields if f.kind.is_operand)
        cls.region_fields = tuple(f for f in cls.fields if f.kind is FieldKind.REGION)
        cls.attribute_names = tuple(f.name for f in cls.fields if f.kind in _ATTRIBUTE_KINDS)
        cls.part_names = frozenset(f.name for f in cls.fields if f.kind not in _RESULT_KINDS)
        cls.defaults = {f.name: f.default for f in cls.fields if f.has_default}
        cls.carries = "init_values" in cls.part_names
        cls.result_names = tuple(f.name for f in cls.fields if f.kind is FieldKind.RESULT)
        cls.rest_name = next((f.name for f in cls.fields if f.kind is FieldKind.RESULTS), "")
        if mnemonic:
            cls.mnemonic, cls.opcode, cls.since = mnemonic, opcode, since
        cls.segmented = segmented or cls.segmented
        cls.assembly = assembly or cls.assembly
        if effect is not None:
            cls.effect = effect
        if meaning is not None:
            cls.meaning = staticmethod(meaning)

    def __init__(self, **given: Any) -> None:
        parts = self.__dict__ = {**self.defaults, **given}
        if parts.keys() != self.part_names:
            raise TypeError(self._wrong_parts(parts))
        self.hold_parts()
        self._define_results()

    def _wrong_parts(self, given: Mapping[str, Any]) -> str:
        missing, unknown = self.part_names - given.keys(), given.keys() - self.part_names
        if missing:
            return f"{type(self).__name__} needs {', '.join(sorted(missing))}"
        return f"{type(self).__name__} has no {', '.join(sorted(unknown))}"

    @classmethod
    def restored(cls, parts: Mapping[str, Any], types: tuple[Type, ...]) -> Self:
        """Return an op as a file states it, with the types of its results.

        `parts` names every field without a default. The type rule is applied only to results that
        the file omits; the verifier compares the others with it.
        """
        op = cls.__new__(cls)
        op.__dict__ = {**cls.defaults, **parts}
        op.hold_parts()
        if len(types) < len(cls.result_names):
            types += op.result_types()[len(types) :]
        op.hold_results(tuple([Value(type_) for type_ in types]))
        return op

    def hold_parts(self) -> None:
        """Collect operands and regions from their fields; called by constructors."""
        held = self.__dict__
        found: list[Value] = []
        for field in self.operand_fields:
            value = held[field.name]
            if field.kind is FieldKind.OPERANDS:
                found.extend(value)
            elif value is not None:
                found.append(value)
        self.operands = tuple(found)  # all operands, in declared order
        # Nested blocks, in declared order.
        self.regions: tuple[Block, ...] = tuple([held[field.name] for field in self.region_fields])

    def _define_results(self) -> None:
        self.hold_results(tuple([Value(type_, self.dtype) for type_ in self.result_types()]))

    def hold_results(self, results: tuple[Value, ...]) -> None:
        """Store the results; called by constructors."""
        self.results = results
        self.__dict__.update(zip(self.result_names, results, strict=False))
        if self.rest_name:
            self.__dict__[self.rest_name] = results[len(self.result_names) :]

    def result_types(self) -> tuple[Type, ...]:
        """The type rule: result types from operands and attributes."""
        return ()

    def rebuilt(self, values: Mapping[Value, Value], regions: tuple[Block, ...] = ()) -> Op:
        """Return the same op over other operands (and, if given, other regions), with new results.

        Names and dtypes of the results are kept; `values` maps old operands to new ones.
        """
        new = self.__new__(type(self))
        parts = new.__dict__ = dict(self.__dict__)
        for field in self.operand_fields:
            old = parts[field.name]
            if field.kind is FieldKind.OPERANDS:
                parts[field.name] = tuple([values.get(value, value) for value in old])
            elif old is not None:
                parts[field.name] = values.get(old, old)
        if regions:
            parts.update(zip([field.name for field in self.region_fields], regions, strict=True))
        new.hold_parts()
        kinds = zip(new.result_types(), self.results, strict=True)
        new.hold_results(tuple([Value(type_, old.dtype, old.hint) for type_, old in kinds]))
        return new

    def walk(self) -> Iterator[Op]:
        """Iterate over this op and every op nested in it, outermost first."""
        return Block(ops=[self]).walk()

    def __repr__(self) -> str:
        return f"<{self.mnemonic}>"


def _take_fields(cls: type) -> dict[str, Field]:
    """Remove the field declarations from a class body, so that instances can hold the parts."""
    taken: dict[str, Field] = {}
    for name in inspect.get_annotations(cls):
        field = cls.__dict__.get(name)
        if isinstance(field, Field):
            field.name = name
            taken[name] = field
            delattr(cls, name)
    return taken


Op.fields = tuple(_take_fields(Op).values())
