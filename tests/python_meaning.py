"""What a kernel means: its own source, run by Python itself, one block after the other.

Tiles are NumPy arrays that wrap as machine integers do, tensors are arrays cut into tiles, and
control flow is Python's. An index outside its axis raises `Outside`, a zero divisor
`ZeroDivisionError`. Knows nothing of the compiler; for kernels of integers only, whose results do
not depend on rounding.
"""

import builtins
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["Accum", "DType", "Mapped", "Mut", "Outside", "Ref", "Tile", "run_blocks"]


class Outside(Exception):
    """An index left its axis."""


class Tile:
    """An immutable array; rank 0 is a scalar. Integers wrap."""

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self.array = np.asarray(array, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def astype(self, dtype: "DType") -> "Tile":
        return Tile(self.array.astype(dtype.kind))

    def reshape(self, *shape: int) -> "Tile":
        return Tile(self.array.reshape(shape))

    def item(self) -> "Tile":
        return Tile(self.array.reshape(()))

    def __bool__(self) -> bool:
        assert not self.shape, "a condition is a scalar"
        return bool(self.array)

    def __index__(self) -> int:
        return int(self.array)

    def __neg__(self) -> "Tile":
        return _binary(np.subtract, Tile(np.zeros((), self.dtype)), self)

    def __invert__(self) -> "Tile":
        return Tile(~self.array)

    def __abs__(self) -> "Tile":
        with np.errstate(all="ignore"):
            return Tile(np.abs(self.array))


class DType:
    """A dtype: what tiles are made of, and a conversion of numbers."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __call__(self, value: Any) -> Tile:
        return value.astype(self) if isinstance(value, Tile) else Tile(np.array(value, self.kind))


def _binary(compute: Callable[..., Any], left: Any, right: Any) -> Tile:
    dtype = left.dtype if isinstance(left, Tile) else right.dtype
    a, b = (v.array if isinstance(v, Tile) else np.array(v, dtype) for v in (left, right))
    assert a.dtype == b.dtype, "dtypes never mix"
    if compute in (np.floor_divide, np.remainder) and not b.all():
        raise ZeroDivisionError
    with np.errstate(all="ignore"):
        return Tile(compute(a, b))


def _shift(compute: Callable[..., Any], a: Any, b: Any) -> Any:
    """Shifts by the width or more leave nothing, or the sign."""
    bits = a.dtype.itemsize * 8
    wide = b.astype(np.int64) if b.dtype.kind == "i" else b
    inside = (wide >= 0) & (wide < bits)
    moved = compute(a, np.where(inside, b, 0).astype(b.dtype))
    lost = -(a < 0).astype(a.dtype) if compute is np.right_shift else np.zeros_like(a)
    return np.where(inside, moved, lost).astype(a.dtype)


def _install_operators() -> None:
    plain = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
        "mod": np.remainder, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    comparisons = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    for name, compute in {**plain, **comparisons}.items():
        setattr(Tile, f"__{name}__", lambda a, b, c=compute: _binary(c, a, b))
        setattr(Tile, f"__r{name}__", lambda a, b, c=compute: _binary(c, b, a))
    for name, compute in {"lshift": np.left_shift, "rshift": np.right_shift}.items():
        shift = lambda a, b, c=compute: _shift(c, a, b)  # noqa: E731
        setattr(Tile, f"__{name}__", lambda a, b, s=shift: _binary(s, a, b))


_install_operators()


def _i32(number: int) -> Tile:
    return Tile(np.int64(number).astype(np.int32))


def _count(extent: int, tile: int) -> int:
    return -(-extent // tile)


class Cut:
    """An array cut into tiles; `first` and `counts` say which of them can be reached.

    One starts every `step` elements, which is the tile's own extent unless they are windows.
    """

    def __init__(
        self,
        array: Any,
        tile: tuple[int, ...],
        first: tuple[int, ...],
        counts: tuple[int, ...],
        step: tuple[int, ...] = (),
    ) -> None:
        self.array, self.tile, self.first, self.counts = array, tile, first, counts
        self.step = step or tile

    def num_tiles(self, axis: int) -> Tile:
        return _i32(self.counts[axis])

    def clip(self, index: Any, axis: int) -> Tile:
        """No index lies inside an empty axis; a launch sure to come here is refused."""
        count = self.counts[axis]
        if not count:
            raise Outside
        return _i32(min(max(int(index), 0), count - 1))

    def _box(self, index: tuple[Any, ...]) -> tuple[slice, ...]:
        assert len(index) == len(self.tile)
        for at, count in zip(index, self.counts, strict=True):
            if not 0 <= int(at) < count:
                raise Outside
        starts = [(f + int(at)) * s for f, at, s in zip(self.first, index, self.step, strict=True)]
        return tuple(slice(s, s + t) for s, t in zip(starts, self.tile, strict=True))

    def __getitem__(self, index: Any) -> Tile:
        part = self.array[self._box(index if isinstance(index, tuple) else (index,))]
        padding = [(0, t - n) for t, n in zip(self.tile, part.shape, strict=True)]
        return Tile(np.pad(part, padding))

    def store(self, tile: Tile, *index: Any) -> None:
        box = self._box(index)
        part = self.array[box]
        part[...] = tile.array[tuple(slice(0, n) for n in part.shape)]


class Ref:
    """A read-only tensor."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(map(_i32, array.shape))

    def partition(self, *tile: int) -> Cut:
        counts = tuple(map(_count, self.array.shape, tile))
        return Cut(self.array, tile, (0,) * len(tile), counts)

    def windows(self, *tile: int, step: int) -> Cut:
        counts = tuple(_count(extent, step) for extent in self.array.shape)
        return Cut(self.array, tile, (0,) * len(tile), counts, (step,) * len(tile))

    def gather(self, *index: Any, mask: Tile | None = None, padding: int = 0) -> Tile:
        places, inside = _places(self.array.shape, index, mask)
        found = np.full(inside.shape, padding, self.array.dtype)
        found[inside] = self.array[tuple(place[inside] for place in places)]
        return Tile(found)

    def load_like(self, piece: "Mut") -> Tile:
        return self.partition(*piece.tile)[tuple(map(_i32, piece.place))]


def _places(
    shape: tuple[int, ...], index: tuple[Any, ...], mask: Tile | None
) -> tuple[list[Any], Any]:
    """Elements that indices name, and which of them are there."""
    numbers = [i.array if isinstance(i, Tile) else np.int64(i) for i in index]
    wide = [n.astype(np.int64) for n in np.broadcast_arrays(*numbers)]
    inside = np.ones(wide[0].shape, bool) if mask is None else mask.array
    for place, extent in zip(wide, shape, strict=True):
        inside = inside & (place >= 0) & (place < extent)
    return wide, inside


class Accum:
    """A tensor that every block adds to."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(map(_i32, array.shape))

    def add(self, tile: Tile, *index: Any) -> None:
        cut = Ref(self.array).partition(*tile.shape)
        cut.store(_binary(np.add, cut[index], tile), *index)

    def add_at(self, values: Any, *index: Any, mask: Tile | None = None) -> None:
        places, inside = _places(self.array.shape, index, mask)
        number = values.array if isinstance(values, Tile) else np.array(values, self.array.dtype)
        added = np.broadcast_to(number, inside.shape)[inside]
        np.add.at(self.array, tuple(place[inside] for place in places), added)


class Mut:
    """One block's piece of an output; a tile of None is a whole axis."""

    def __init__(self, array: Any, tile: tuple[int | None, ...], place: tuple[int, ...]) -> None:
        tile = tuple(e if t is None else t for e, t in zip(array.shape, tile, strict=True))
        self.array, self.tile, self.place = array, tile, place
        self.shape = tuple(map(_i32, array.shape))
        self.index = tuple(map(_i32, place))
        self._whole = Cut(array, tile, place, (1,) * len(tile))

    def load(self) -> Tile:
        return self._whole[(0,) * len(self.tile)]

    def store(self, tile: Tile) -> None:
        self._whole.store(tile, *(0,) * len(self.tile))

    def partition(self, *part: int) -> Cut:
        ratio = [_count(t, p) for t, p in zip(self.tile, part, strict=True)]
        first = tuple(at * r for at, r in zip(self.place, ratio, strict=True))
        left = [_count(e, p) - f for e, p, f in zip(self.array.shape, part, first, strict=True)]
        return Cut(self.array, part, first, tuple(map(min, ratio, left)))


class Mapped:
    """One block's share of a walked output: every `blocks`-th tile."""

    def __init__(self, array: Any, tile: tuple[int, ...], block: int, blocks: int) -> None:
        self.array, self.tile = array, tile
        self._whole = Ref(array).partition(*tile)
        self._mine = (block, blocks)

    def indices(self) -> Iterator[tuple[Tile, ...]]:
        return self.indices_within(*((0, count) for count in self._whole.counts))

    def indices_within(self, *ranges: tuple[Any, Any]) -> Iterator[tuple[Tile, ...]]:
        cut = [
            builtins.range(max(int(start), 0), min(int(stop), count))
            for (start, stop), count in zip(ranges, self._whole.counts, strict=True)
        ]
        places = list(itertools.product(*cut))
        block, blocks = self._mine
        for place in places[block::blocks]:
            yield tuple(map(_i32, place))

    def load(self, at: tuple[Tile, ...]) -> Tile:
        return self._whole[at]

    def store(self, tile: Tile, at: tuple[Tile, ...]) -> None:
        self._whole.store(tile, *at)


def _range(*bounds: Any) -> Iterator[Tile]:
    return map(_i32, builtins.range(*map(int, bounds)))


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    def choose(left: Any, right: Any) -> Any:
        if not isinstance(left, Tile) and not isinstance(right, Tile):
            return pick(left, right)
        return _binary(np.minimum if pick is min else np.maximum, left, right)

    return choose


def _full(shape: Any, value: Any, dtype: Any) -> Tile:
    number = value.array if isinstance(value, Tile) else value
    return Tile(np.full(shape, number, dtype.kind))


def _where(condition: Tile, left: Any, right: Any) -> Tile:
    return _binary(lambda a, b: np.where(condition.array, a, b), left, right)


def _language(block: tuple[int, ...], grid: tuple[int, ...]) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        arange=lambda n: Tile(np.arange(n, dtype=np.int32)),
        block_id=lambda axis: _i32(block[axis]),
        cdiv=lambda a, b: -(-a // b),
        full=_full,
        kernel=lambda function: function,
        maximum=_extreme(max),
        minimum=_extreme(min),
        num_blocks=lambda axis: _i32(grid[axis]),
        sum=lambda tile: Tile(tile.array.sum(dtype=tile.dtype)),
        where=_where,
        zeros=lambda shape, dtype: _full(shape, 0, dtype),
    )


_DTYPES = {name: DType(kind) for name, kind in (
    ("i32", np.int32), ("u32", np.uint32), ("i64", np.int64), ("i8", np.int8), ("u8", np.uint8),
)}  # fmt: skip


def run_blocks(
    source: str,
    name: str,
    grid: tuple[int, ...],
    names: dict[str, Any],
    arguments: Callable[[tuple[int, ...]], dict[str, Any]],
) -> None:
    """Run the kernel `name` of a source text for every block of a grid.

    `names` are what the source finds beside the language; `arguments` gives the parameters of one
    block by name.
    """
    code = compile(source, "<kernel>", "exec", dont_inherit=True)
    for block in itertools.product(*map(builtins.range, grid)):
        scope: dict[str, Any] = {
            **_DTYPES, **names, "tw": _language(block, grid), "range": _range,
            "min": _extreme(min), "max": _extreme(max),
        }  # fmt: skip
        exec(code, scope)
        scope[name](**arguments(block))
