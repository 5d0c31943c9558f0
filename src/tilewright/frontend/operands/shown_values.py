"""Constants in messages: members of enums by name, and wide integers by their width."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tilewright.given import shown

__all__ = ["shown_value"]

_WIDEST = 64  # bits; longer numbers are shown by their width


def shown_value(value: Any) -> str:
    """A value as in the source, if that is short."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value._name_}"
    if type(value) is int and value.bit_length() > _WIDEST:
        return f"an integer of {value.bit_length()} bits"
    return shown(value)
