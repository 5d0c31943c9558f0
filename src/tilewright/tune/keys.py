"""What a configuration was chosen for: dtypes, the shape of the problem, options.

A key says what decides which configuration is fast, and nothing else: for a matrix product its
dtype, (M, N, K) and how the operands are stored. Kernels decide what stands in theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2
from typing import Any, NamedTuple

from tilewright.dtypes import DTYPES, DType
from tilewright.errors import TuneError

__all__ = ["Key", "Option", "key_of"]

# What an option of a kernel may be.
Option = int | bool | str | None

_LABELS = {dtype.label for dtype in DTYPES}


class Key(NamedTuple):
    """Made by `key_of`; cheap to make and to compare, because every launch may do so."""

    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    options: tuple[tuple[str, Option], ...] = ()  # sorted by name

    @property
    def family(self) -> tuple[tuple[str, ...], int, tuple[tuple[str, Option], ...]]:
        """What a key must share with another for one to stand in for the other."""
        return self.dtypes, len(self.shape), self.options

    def distance(self, other: Key) -> float:
        """How far apart two shapes are: octaves, summed over the axes."""
        pairs = zip(self.shape, other.shape, strict=True)
        return sum(abs(log2(max(ours, 1) / max(theirs, 1))) for ours, theirs in pairs)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "dtypes": list(self.dtypes),
            "shape": list(self.shape),
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(data: Any) -> Key:
        """A key that was written by `to_json`; anything else is a `TuneError`."""
        try:
            dtypes, shape, options = data["dtypes"], data["shape"], data["options"]
        except (TypeError, KeyError):
            raise TuneError(f"a key has dtypes, a shape and options, not {data!r}") from None
        unknown = [label for label in dtypes if label not in _LABELS]
        is_shape = all(type(extent) is int and extent >= 0 for extent in shape)
        if unknown or not is_shape or not isinstance(options, dict):
            raise TuneError(f"a key names dtypes, extents and options, not {data!r}")
        return Key(tuple(dtypes), tuple(shape), tuple(sorted(options.items())))

    def __str__(self) -> str:
        shown = (f"{name}={value}" for name, value in self.options)
        return " ".join((",".join(self.dtypes), "x".join(map(str, self.shape)), *shown))


def key_of(
    dtypes: type[DType] | Iterable[type[DType]], shape: Iterable[int], **options: Option
) -> Key:
    """The key of a problem: `key_of(a.dtype, (m, n, k), transposed=False)`."""
    labels = (dtypes.label,) if isinstance(dtypes, type) else tuple([one.label for one in dtypes])
    return Key(labels, tuple(shape), tuple(sorted(options.items())) if options else ())
