"""Numbers and strings in MLIR's notation, which the vendor's tools print.

A float is printed with six decimals if these round-trip, else with as many digits as its format
needs, else (no fraction, infinite, NaN) as its bits in hexadecimal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.elements import E5M3_NUMBERS, constant_bytes, element_bits
from tilewright.ir.types import TileType

__all__ = [
    "constant_name",
    "constant_text",
    "key_text",
    "long_constant_length",
    "number_text",
    "quoted",
    "symbol_text",
]

_SHORT_DIGITS = 6
_MOST_PADDING = 3  # zeros written out before an exponent is used
_MOST_LISTED = 100  # elements; a longer constant is printed as one byte string
# Significant digits that distinguish any two numbers of a format: 2 + mantissa bits * log10(2).
_DIGITS = {
    Element.F16: 5, Element.BF16: 4, Element.F32: 9, Element.TF32: 5, Element.F64: 17,
    Element.F8E4M3FN: 3, Element.F8E5M2: 2, Element.F8E8M0FNU: 2, Element.F4E2M1FN: 2,
    Element.FNV8E5M3FNU: 3,
}  # fmt: skip


def constant_text(value: Any, type_: TileType) -> str:
    """Return the elements of a constant: one number if all are equal, else nested lists."""
    element = type_.element
    assert isinstance(element, Element)
    numbers = np.asarray(value)
    bits = element_bits(numbers.reshape(-1), element)
    if _are_alike(bits):
        return f"<{element.spelling}: {number_text(numbers.reshape(-1)[0], element)}>"
    if numbers.size > _MOST_LISTED:
        truths = element is Element.I1  # a byte each in the text, a bit each in the bytecode
        data = bits.astype(np.uint8).tobytes() if truths else constant_bytes(value, type_)
        return f'<{element.spelling}: "0x{data.hex().upper()}">'
    return f"<{element.spelling}: {_listed(numbers, element)}>"


def constant_name(value: Any, element: Element) -> str:
    """Return the name of a constant's result: its number, if it has only one."""
    bits = element_bits(np.asarray(value).reshape(-1), element)
    alike = _are_alike(bits)
    if element is Element.I1:
        return ("true" if bits[0] else "false") if alike else "cst_i1"
    middle = _name_of_number(np.asarray(value).reshape(-1)[0], element) if alike else ""
    return f"cst{middle}_{element.spelling}"


def number_text(value: Any, element: Element) -> str:
    """Return the text of one element."""
    if element is Element.I1:
        return "true" if value else "false"
    if element.is_integer:
        return str(_signed(int(value), element))
    held = _held(value, element)
    short = _scientific(held, _SHORT_DIGITS) if np.isfinite(held) else ""
    if short and element_bits([float(short)], element) == element_bits([value], element):
        return short
    full = _shortest(held, _DIGITS[element]) if np.isfinite(held) else ""
    return full if "." in full else f"0x{int(element_bits([value], element)[0]):X}"


def quoted(text: str) -> str:
    """Return a quoted string; all but plain characters become bytes in hexadecimal."""
    plain = {ord("\\"): "\\\\", ord('"'): "\\22"}
    return '"' + "".join(
        plain.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:02X}")
        for byte in text.encode()
    ) + '"'  # fmt: skip


def symbol_text(name: str) -> str:
    """Return the name of a function or a global, with its `@`."""
    return f"@{key_text(name)}"


def key_text(name: str) -> str:
    """Return a key, in quotation marks unless it is an identifier."""
    plain = name.isascii() and name.replace(".", "_").replace("$", "_").isidentifier()
    return name if plain and name[0] not in ".$" else quoted(name)


def long_constant_length(value: Any, type_: TileType) -> int:
    """Return the approximate length of a constant printed as bytes; 0 for any other."""
    element, size = type_.element, np.size(value)
    if size <= _MOST_LISTED or not isinstance(element, Element):
        return 0
    return size * 2 * max(element.bits // 8, 1)


def _are_alike(bits: np.ndarray[Any, Any]) -> bool:
    return bits.size > 0 and bool((bits == bits[0]).all())


def _listed(numbers: np.ndarray[Any, Any], element: Element) -> str:
    if numbers.ndim == 0:
        return number_text(numbers[()], element)
    return f"[{', '.join(_listed(part, element) for part in numbers)}]"


def _name_of_number(value: Any, element: Element) -> str:
    if element.is_integer:
        return f"_{_signed(int(value), element)}"
    held = _held(value, element)
    if np.isnan(held):
        return "_NaN"
    whole = np.isfinite(held) and held == int(held) and 0 <= held < 2.0**64
    return f"_{int(held)}" if whole and not np.signbit(held) else ""


def _signed(value: int, element: Element) -> int:
    half = 1 << (element.bits - 1)
    return (value + half) % (2 * half) - half


def _held(value: Any, element: Element) -> float:
    """Return the number that an element holds after rounding."""
    bits = int(element_bits([value], element)[0])
    if element is Element.TF32:
        return float(np.uint32(bits << 13).view(np.float32))
    if element is Element.FNV8E5M3FNU:
        return float(E5M3_NUMBERS[bits])
    width = element.numpy.itemsize
    return float(np.frombuffer(bits.to_bytes(width, "little"), element.numpy)[0])


def _digits(value: float, count: int) -> tuple[str, int]:
    """Return at most `count` significant digits, without trailing zeros, and the last exponent.

    MLIR first truncates the number to about that many digits in binary and then rounds the result
    half up; only both steps reproduce its digits.
    """
    numerator, denominator = abs(value).as_integer_ratio()
    twos = denominator.bit_length() - 1
    whole, exponent = numerator * 5**twos, -twos  # n / 2^k is n * 5^k / 10^k
    surplus = whole.bit_length() - (count * 196 + 58) // 59  # 196/59 bits make a digit
    cut = max(surplus, 0) * 59 // 196
    text, exponent = str(whole // 10**cut), exponent + cut
    extra = len(text) - count
    if extra > 0:
        text = str(int(text[:count]) + (text[count] >= "5"))
        exponent += extra
    kept = text.rstrip("0") or "0"
    return kept, exponent + len(text) - len(kept)


def _scientific(value: float, count: int) -> str:
    """Return six decimals and an exponent of two digits."""
    sign = "-" if np.signbit(value) else ""
    if value == 0:
        return f"{sign}0.{'0' * count}e+00"
    digits, exponent = _digits(value, count)
    power = exponent + len(digits) - 1
    return f"{sign}{digits[0]}.{digits[1:]:0<{count}}e{power:+03d}"


def _shortest(value: float, count: int) -> str:
    """Return all digits that a format needs, with an exponent only in place of many zeros."""
    sign = "-" if np.signbit(value) else ""
    digits, exponent = _digits(value, count)
    power = exponent + len(digits) - 1
    if exponent >= 0:
        scientific = exponent > _MOST_PADDING or len(digits) + exponent > count
    else:
        scientific = -power > _MOST_PADDING
    if scientific:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{'+' if power >= 0 else '-'}{abs(power)}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if power >= 0:
        return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"
    return f"{sign}0.{'0' * (-power - 1)}{digits}"
