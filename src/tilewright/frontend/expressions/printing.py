"""Text: `print(…)` of values of the kernel, and f-strings.

Constants are formatted at compile time. A value of the kernel becomes a conversion in a C `printf`
format, as Tile IR has it; a tile is written as nested brackets. Narrow numbers are widened first:
the format has no conversions for them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, Element, f32, f64, i32, i64, u32
from tilewright.frontend.calling.arguments import spread
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import Aggregate
from tilewright.frontend.operands.operands import DTypeOperand, Operand, Static, TileOperand
from tilewright.frontend.operands.shown_values import shown_value
from tilewright.frontend.operands.tiles import convert
from tilewright.ir.op import Value
from tilewright.ir.ops.control import Print

__all__ = ["joined_string", "print_call"]

_SPEC = re.compile(r"(?P<flags>[+ 0]*\d*(?:\.\d+)?)(?P<letter>[a-zA-Z]?)")
_REPR = ord("r")
# Digits of a width: text of constants is part of the kernel, and C promises 4,095 characters.
_LONGEST_WIDTH = 3
_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")


@dataclass
class _Text:
    """A format under construction, with the values of its conversions."""

    format: str = ""
    values: tuple[Value, ...] = ()

    def say(self, text: str) -> None:
        """Add literal text."""
        self.format += text.replace("%", "%%")

    def show(self, place: str, value: Value) -> None:
        """Add a conversion for a value."""
        self.format += place
        self.values = (*self.values, value)


def print_call(lo: Lowering, node: ast.Call) -> Operand:
    """`print(…)`, once for each block that reaches it."""
    words = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        text = lo.expression(keyword.value)
        if keyword.arg not in words or not isinstance(text, Static):
            reason = "of its keywords, kernels have `sep` and `end`, which are text"
            lo.reject(BadCall, keyword, "print", reason)
        words[keyword.arg] = "" if text.value is None else str(text.value)
    said = _Text()
    for place, item in enumerate(node.args):
        said.say(words["sep"] if place else "")
        if isinstance(item, ast.JoinedStr):
            _add_parts(lo, item, said)
            continue
        for number, (where, operand) in enumerate(spread(lo, [item])):
            said.say(words["sep"] if number else "")
            _add(lo, where, operand, said)
    said.say(words["end"])
    _refuse_unprintable(lo, node, said.format)
    lo.builder.add(Print(args=said.values, str=said.format))
    return Static(None)


def _refuse_unprintable(lo: Lowering, node: ast.Call, text: str) -> None:
    """Refuse text that a format of C cannot hold: its end is a NUL, and its bytes are UTF-8."""
    found = _UNPRINTABLE.search(text)
    if found is not None:
        reason = f"a kernel prints UTF-8 without NUL, and not {found[0]!r}"
        lo.reject(BadCall, node, "print", reason, "leave the character out")


def joined_string(lo: Lowering, node: ast.JoinedStr) -> Operand:
    """An f-string of compile-time values."""
    said = _Text()
    _add_parts(lo, node, said)
    if said.values:
        what = "an f-string of a value that only the kernel knows, outside `print(…)`,"
        lo.reject(Unsupported, node, what, "print it, or use a value that is known at compile time")
    return Static(said.format.replace("%%", "%"))


def _add_parts(lo: Lowering, node: ast.JoinedStr, said: _Text) -> None:
    """The parts of an f-string. Problems are about the whole: Python 3.11 places no part of it."""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            spec = "" if part.format_spec is None else _spec(lo, part.format_spec)
            operand = lo.expression(part.value)
            if isinstance(operand, Static) and part.conversion == _REPR:
                operand = Static(repr(operand.value))
            _add(lo, node, operand, said, spec)
        else:
            assert isinstance(part, ast.Constant)
            said.say(str(part.value))


def _spec(lo: Lowering, node: ast.expr) -> str:
    spec = lo.expression(node)
    assert isinstance(spec, Static)
    return str(spec.value)


def _add(lo: Lowering, node: ast.AST, operand: Operand, said: _Text, spec: str = "") -> None:
    if any(len(digits) > _LONGEST_WIDTH for digits in re.findall(r"\d+", spec)):
        reason = f"a format of {shown_value(spec)} is too wide"
        lo.reject(BadCall, node, "print", reason, "a width or a precision is at most 999")
    if isinstance(operand, TileOperand):
        wide = convert(lo, operand, _shown_as(operand.dtype))
        said.show(_place(lo, node, wide.dtype, spec), wide.value)
    elif isinstance(operand, Static):
        try:
            said.say(format(operand.value, spec))
        except (TypeError, ValueError) as error:
            lo.reject(BadCall, node, "print", str(error))
    elif isinstance(operand, DTypeOperand):
        said.say(operand.dtype.label)
    elif isinstance(operand, Aggregate):
        said.say("(")
        for place, item in enumerate(operand.items):
            said.say(", " if place else "")
            _add(lo, node, item, said, spec)
        said.say(")")
    else:
        reason = f"it shows tiles, numbers and text; this is {operand}"
        lo.reject(WrongOperand, node, "`print`", reason, "load a tile of it first")


def _shown_as(dtype: type[DType]) -> type[DType]:
    """The dtype that a value is printed as."""
    element = dtype.element
    if element.is_float:
        return f64 if element is Element.F64 else f32
    if element.bits > i32.element.bits:
        return dtype
    return i32 if dtype.signed or element.bits < i32.element.bits else u32


def _place(lo: Lowering, node: ast.AST, dtype: type[DType], spec: str) -> str:
    """The conversion of one number, by a format specification of Python."""
    found = _SPEC.fullmatch(spec)
    letters = "gGeEfF" if dtype.element.is_float else ("d" if dtype.signed else "uxX")
    letter = letters[0] if found is None else found["letter"] or letters[0]
    if letter == "d" and not dtype.signed and not dtype.element.is_float:
        letter = "u"
    if found is None or letter not in letters:
        reason = f"{dtype.label} is not shown as `{spec}`"
        way_out = f"a format is a sign, zeros, a width, a precision and a letter of `{letters}`"
        lo.reject(BadCall, node, "print", reason, way_out)
    wide = "ll" if dtype.element.bits == i64.element.bits and not dtype.element.is_float else ""
    return f"%{found['flags']}{wide}{letter}"
