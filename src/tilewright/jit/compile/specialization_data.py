"""Specialisations as plain data, for bundles: numbers, words, lists, and listed classes.

A dtype is written by its name, a float by its digits, an object of a listed class by its fields.
Reading makes objects of these classes and no others.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.frontend.signature.specialization import (
    ExactFloat,
    PointerSpec,
    Specialization,
    TensorSpecialization,
)
from tilewright.lang.hints import Hints

__all__ = ["Unwritten", "read_specialization", "specialization_data"]

_CLASSES = {one.__name__: one for one in (Specialization, TensorSpecialization, PointerSpec, Hints)}
_DTYPES = {
    name: one
    for name, one in vars(dtypes).items()
    if isinstance(one, type) and issubclass(one, DType) and one is not DType
}
_DEEPEST = 8


class Unwritten(ValueError):
    """A specialisation with a constant that has no text, or a text that is no specialisation."""


def specialization_data(made_for: Specialization) -> dict[str, Any]:
    """A specialisation as data for JSON."""
    data: dict[str, Any] = _data(made_for)
    return data


def read_specialization(data: Any) -> Specialization:
    """The specialisation of such data; raises `Unwritten` for any other."""
    try:
        made = _value(data, 0)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise Unwritten(f"this is no specialisation: {error}") from None
    if not isinstance(made, Specialization):
        raise Unwritten("this is no specialisation")
    return made


def _data(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return [_data(one) for one in value]
    if isinstance(value, type) and value in _DTYPES.values():
        return {"dtype": value.__name__}
    if _CLASSES.get(type(value).__name__) is type(value):
        return {
            type(value).__name__: {
                one.name: _data(getattr(value, one.name)) for one in fields(value)
            }
        }
    raise Unwritten(f"{value!r} has no text")


def _value(data: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deep")
    if data is None or isinstance(data, bool | int | str):
        return data
    if isinstance(data, list):
        return tuple(_value(one, depth + 1) for one in data)
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("an object has one name")
    ((name, held),) = data.items()
    if name == "float":
        return ExactFloat(float.fromhex(held))
    if name == "dtype":
        return _DTYPES[held]
    known = {one.name for one in fields(_CLASSES[name])}
    if not isinstance(held, dict) or set(held) != known:
        raise ValueError(f"{name} has other fields")
    return _CLASSES[name](**{key: _value(one, depth + 1) for key, one in held.items()})
