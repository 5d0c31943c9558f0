"""Keys of records: dtypes, the shape of the problem, options.

A key has all facts that affect the choice of a configuration, and no others: for a matrix product
its dtype, (M, N, K) and the storage order of the operands. Each kernel defines its own keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2
from typing import Any, NamedTuple

from tilewright.dtypes import DTYPES, DType
from tilewright.errors import TuneError

__all__ = ["Key", "Option", "key_of"]

# Types of a kernel's options.
Option = int | bool | str | None

_LABELS = {dtype.label for dtype in DTYPES}


class Key(NamedTuple):
    """Key of a record, made by `key_of`; cheap to make and to compare, for use at every launch."""

    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    options: tuple[tuple[str, Option], ...] = ()  # sorted by name

    @property
    def family(self) -> tuple[tuple[str, ...], int, tuple[tuple[str, Option], ...]]:
        """Part of a key that must be equal for one key to substitute for another."""
        return self.dtypes, len(self.shape), self.options

    def distance(self, other: Key) -> float:
        """Return the distance of two shapes: octaves, summed over the axes."""
        pairs = zip(self.shape, other.shape, strict=True)
        return sum(abs(log2(max(ours, 1) / max(theirs, 1))) for ours, theirs in pairs)

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json`."""
        return {
            "dtypes": list(self.dtypes),
            "shape": list(self.shape),
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(data: Any) -> Key:
        """Return a key that `to_json` wrote; other data is a `TuneError`."""
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
    """Return the key of a problem: `key_of(a.dtype, (m, n, k), transposed=False)`."""
    labels = (dtypes.label,) if isinstance(dtypes, type) else tuple([one.label for one in dtypes])
    return Key(labels, tuple(shape), tuple(sorted(options.items())) if options else ())
