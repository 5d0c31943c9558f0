"""Random problems on rows: functions, widths, strides and dtypes drawn by a stated distribution.

Every draw chooses a function uniformly, a dtype (f16 and bf16 twice as often as f32), a width that
is log-uniform in 64 to 131072, and a size that is log-uniform in 2^18 to 2^27 elements; the number
of rows follows. A third of the widths are multiples of 128, a third multiples of 8, and a third are
any number. A third of the inputs are columns of a wider row, which begin anywhere in it. Functions
of heads have 1 to 64 heads of 32 to 256 channels and take them from a fused row of queries, keys
and values, in the order of the row or with heads in front of places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

import tilewright as tw
from tilewright import bf16, f16, f32, i64, kernels

__all__ = ["Operand", "RowProblem", "draw"]

NARROWEST, WIDEST = 64, 1 << 17
SMALLEST, LARGEST = 1 << 18, 1 << 27  # elements
MOST_HEADS = 64
VOCABULARY = 32003  # rows of an embedding
Many = Sequence[Any]


@dataclass(frozen=True)
class Operand:
    """A tensor: normally distributed, or integers below a limit; perhaps a part of wider rows."""

    shape: tuple[int, ...]
    dtype: type[tw.DType] = f16
    below: int = 0
    outer: int = 0  # axes in front of the wider row
    row: int = 0  # elements of the wider row; 0: contiguous
    start: int = 0  # the first one of this operand
    heads_first: bool = False  # axes 1 and 2 are exchanged

    @property
    def allocated(self) -> tuple[int, ...]:
        """The shape of the memory."""
        return (*self.shape[: self.outer], self.row) if self.row else self.shape

    @property
    def nbytes(self) -> int:
        """Bytes that a function reads or writes."""
        return math.prod(self.shape) * {f16: 2, bf16: 2, f32: 4, i64: 8}[self.dtype]

    def view(self, whole: Any) -> Any:
        """The operand in its memory, of ours or of torch."""
        if self.row:
            width = math.prod(self.shape[self.outer :])
            line = whole.reshape(math.prod(self.shape[: self.outer]), self.row)
            whole = line[:, self.start : self.start + width].reshape(self.shape)
        return whole.permute(0, 2, 1, 3) if self.heads_first else whole


@dataclass(frozen=True)
class RowProblem:
    """One function on one shape and layout."""

    name: str
    title: str
    outs: tuple[Operand, ...]
    ins: tuple[Operand, ...]
    ours: Callable[[Many, Many], Any]
    theirs: Callable[..., Any]
    triton: str = ""  # the plain Triton kernel, for contiguous operands
    checked: int = 1  # outputs that are compared
    limit: float = 1e-2
    off: Callable[[Any, Many], float] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes moved at least."""
        return sum(one.nbytes for one in (*self.outs, *self.ins))

    @property
    def is_contiguous(self) -> bool:
        """Whether no operand is a part of wider rows."""
        return not any(one.row or one.heads_first for one in (*self.outs, *self.ins))


class Draw:
    """One random problem in the making."""

    def __init__(self, random: Random, largest: int) -> None:
        self.random, self.largest = random, largest
        self.dtype = random.choice((f16, f16, bf16, bf16, f32))
        self.widest = min(WIDEST, largest // 2)

    def between(self, low: int, high: int) -> int:
        """A whole number, log-uniform."""
        drawn = round(math.exp(self.random.uniform(math.log(low), math.log(high))))
        return min(max(drawn, low), high)

    def ragged(self, value: int) -> int:
        """The number as it is, or as a multiple of 8 or of 128 near it."""
        unit = self.random.choice((1, 8, 128))
        return max(round(value / unit), 1) * unit

    def matrix(self) -> tuple[int, int]:
        """Rows and columns."""
        columns = self.ragged(self.between(NARROWEST, self.widest))
        size = self.between(min(SMALLEST, self.largest // 4), self.largest)
        return max(size // columns, 1), columns

    def operand(self, rows: int, columns: int) -> Operand:
        """A matrix of this dtype; one in three is a part of wider rows."""
        made = Operand((rows, columns), self.dtype)
        if self.random.randrange(3):
            return made
        row = columns + self.ragged(self.between(8, columns))
        start = self.random.randrange(row - columns + 1)
        return replace(made, outer=1, row=row, start=self.aligned(start))

    def aligned(self, start: int) -> int:
        """The place, or the last multiple of 8 or of 128 before it."""
        unit = self.random.choice((1, 8, 128))
        return start // unit * unit

    def heads(self) -> tuple[tuple[int, int, int, int], Operand]:
        """Heads of a fused row, and their shape."""
        channels = self.random.choice((32, 64, 80, 96, 128, 128, 192, 256))
        heads = self.between(1, MOST_HEADS)
        size = self.between(min(SMALLEST, self.largest // 4), self.largest)
        tokens = max(size // (channels * heads), 1)
        batch = self.between(1, max(min(tokens, 64), 1))
        shape = (batch, max(tokens // batch, 1), heads, channels)
        groups = self.random.choice((1, 2, 4, 8))
        others = 2 * max(heads // groups, 1) * channels
        start = self.random.choice((0, others))
        row = heads * channels + others
        return shape, Operand(shape, self.dtype, outer=2, row=row, start=start)


def _label(of: Operand) -> str:
    shape = " x ".join(map(str, of.shape))
    where = f", row {of.row} at {of.start}" if of.row else ""
    return f"{shape} {of.dtype.label}{where}{', heads first' if of.heads_first else ''}"


def _softmax(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "softmax", _label(x), (replace(x, row=0),), (x,),
        lambda o, i: kernels.softmax(i[0], out=o[0]),
        lambda x: torch.softmax(x, -1),
        "softmax",
    )  # fmt: skip


def _rms_norm(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "rms_norm", _label(x), (replace(x, row=0),), (x, Operand(x.shape[1:], x.dtype)),
        lambda o, i: kernels.rms_norm(i[0], i[1], out=o[0]),
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
        "rms_norm",
    )  # fmt: skip


def _rms_norm_heads(by: Draw) -> RowProblem:
    shape, x = by.heads()
    return RowProblem(
        "rms_norm_heads", _label(x), (Operand(shape, x.dtype),), (x, Operand(shape[3:], x.dtype)),
        lambda o, i: kernels.rms_norm(i[0], i[1], out=o[0]),
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
    )  # fmt: skip


def _layer_norm(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    line = Operand(x.shape[1:], x.dtype)
    return RowProblem(
        "layer_norm", _label(x), (replace(x, row=0),), (x, line, line),
        lambda o, i: kernels.layer_norm(*i, out=o[0]),
        lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
        "layer_norm",
    )  # fmt: skip


def _summed_norm(x: Any, y: Any, weight: Any) -> Any:
    total = x + y
    return F.rms_norm(total, weight.shape, weight, 1e-6), total


def _add_rms_norm(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    y = replace(x, row=0)
    return RowProblem(
        "add_rms_norm", _label(x), (y, y), (x, y, Operand(x.shape[1:], x.dtype)),
        lambda o, i: kernels.add_rms_norm(*i, out=(o[0], o[1])),
        _summed_norm,
        "add_rms_norm",
        checked=2,
    )  # fmt: skip


def _wide(x: Any) -> Any:
    return x if x.dtype == torch.float64 else x.float()


def _rms_gradient(dz: Any, x: Any, weight: Any) -> Any:
    v, d = _wide(x), _wide(dz)
    scale = torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-6)
    h, g = v * scale, d * _wide(weight)
    dx = (g - h * (g * h).mean(-1, keepdim=True)) * scale
    return dx.to(x.dtype), (d * h).sum(0).to(x.dtype)


def _rms_norm_gradient(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    dense, line = replace(x, row=0), Operand(x.shape[1:], x.dtype)
    return RowProblem(
        "rms_norm_gradient", _label(x), (dense, line), (dense, x, line),
        lambda o, i: kernels.rms_norm_gradient(*i, out=(o[0], o[1])),
        _rms_gradient,
        checked=2,
    )  # fmt: skip


def _layer_gradient(dz: Any, x: Any, weight: Any) -> Any:
    v, d = _wide(x), _wide(dz)
    v = v - v.mean(-1, keepdim=True)
    scale = torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-5)
    h, g = v * scale, d * _wide(weight)
    dx = (g - g.mean(-1, keepdim=True) - h * (g * h).mean(-1, keepdim=True)) * scale
    return dx.to(x.dtype), (d * h).sum(0).to(x.dtype), d.sum(0).to(x.dtype)


def _layer_norm_gradient(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    dense, line = replace(x, row=0), Operand(x.shape[1:], x.dtype)
    return RowProblem(
        "layer_norm_gradient", _label(x), (dense, line, line), (dense, x, line),
        lambda o, i: kernels.layer_norm_gradient(*i, out=(o[0], o[1], o[2])),
        _layer_gradient,
        checked=3,
    )  # fmt: skip


def _losses(x: Any, labels: Any) -> Any:
    log_sum = torch.logsumexp(_wide(x), -1)
    return log_sum - _wide(x.gather(1, labels[:, None])[:, 0]), log_sum


def _cross_entropy(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    line = Operand(x.shape[:1], f32)
    return RowProblem(
        "cross_entropy", _label(x), (line, line), (x, Operand(x.shape[:1], i64, x.shape[1])),
        lambda o, i: kernels.cross_entropy(*i, out=(o[0], o[1])),
        _losses,
        "cross_entropy",
        checked=2,
    )  # fmt: skip


def _loss_gradient(x: Any, labels: Any, log_sum: Any, dloss: Any) -> Any:
    share = torch.exp(_wide(x) - log_sum[:, None])
    is_label = torch.arange(x.shape[1], device=x.device) == labels[:, None]
    return ((share - is_label.to(share.dtype)) * dloss[:, None]).to(x.dtype)


def _cross_entropy_gradient(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    line = Operand(x.shape[:1], f32)
    labels = Operand(x.shape[:1], i64, x.shape[1])
    return RowProblem(
        "cross_entropy_gradient", _label(x), (replace(x, row=0),), (x, labels, line, line),
        lambda o, i: kernels.cross_entropy_gradient(*i, out=o[0]),
        _loss_gradient,
        "cross_entropy_gradient",
    )  # fmt: skip


def _sum(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "sum", _label(x), (Operand(x.shape[:1], x.dtype),), (x,),
        lambda o, i: kernels.sum(i[0], 1, out=o[0]),
        lambda x: x.sum(1),
        "sum",
    )  # fmt: skip


def _sum_columns(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "sum_columns", _label(x), (Operand(x.shape[1:], x.dtype),), (x,),
        lambda o, i: kernels.sum(i[0], 0, out=o[0]),
        lambda x: x.sum(0),
    )  # fmt: skip


def _max(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "max", _label(x), (Operand(x.shape[:1], x.dtype),), (x,),
        lambda o, i: kernels.max(i[0], 1, out=o[0]),
        lambda x: x.amax(1),
    )  # fmt: skip


def _off_highest(at: Any, ins: Many) -> float:
    """Equal elements are equally right."""
    found = ins[0].gather(1, at[:, None].long())[:, 0]
    return float((found != ins[0].amax(1)).double().mean())


def _argmax(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "argmax", _label(x), (Operand(x.shape[:1], i64),), (x,),
        lambda o, i: kernels.argmax(i[0], out=o[0]),
        lambda x: x.argmax(1),
        "argmax",
        off=_off_highest,
    )  # fmt: skip


def _embedding(by: Draw) -> RowProblem:
    rows, columns = by.matrix()
    columns = min(columns, 16384)
    z, ids = Operand((rows, columns), by.dtype), Operand((rows,), i64, VOCABULARY)
    table = Operand((VOCABULARY, columns), by.dtype)
    return RowProblem(
        "embedding", _label(z), (z,), (ids, table),
        lambda o, i: kernels.embedding(*i, out=o[0]),
        lambda ids, table: F.embedding(ids, table),
        "embedding",
    )  # fmt: skip


def _turned(x: Any, cosines: Any, sines: Any) -> Any:
    one, two = _wide(x).chunk(2, -1)
    turned = (one * cosines - two * sines, two * cosines + one * sines)
    return torch.cat(turned, -1).to(x.dtype)


def _rope(by: Draw) -> RowProblem:
    (batch, places, heads, channels), x = by.heads()
    x = replace(x, heads_first=True)
    table = Operand((places, channels // 2), f32)
    z = Operand((batch, heads, places, channels), x.dtype)
    return RowProblem(
        "rope", _label(x), (z,), (x, table, table),
        lambda o, i: kernels.rope(*i, out=o[0]),
        _turned,
    )  # fmt: skip


def _silu_mul(by: Draw) -> RowProblem:
    rows, columns = by.matrix()
    gate = up = Operand((rows, columns), by.dtype)
    if by.random.randrange(2):  # both halves of a fused row
        gate = replace(gate, outer=1, row=2 * columns)
        up = replace(gate, start=columns)
    return RowProblem(
        "silu_mul", _label(up), (Operand((rows, columns), by.dtype),), (gate, up),
        lambda o, i: kernels.silu_mul(*i, out=o[0]),
        lambda gate, up: F.silu(gate) * up,
        "silu_mul",
    )  # fmt: skip


def _gelu(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    return RowProblem(
        "gelu", _label(x), (replace(x, row=0),), (x,),
        lambda o, i: kernels.gelu(i[0], approximate="tanh", out=o[0]),
        lambda x: F.gelu(x, approximate="tanh"),
        "gelu_tanh",
    )  # fmt: skip


def _add(by: Draw) -> RowProblem:
    x = by.operand(*by.matrix())
    dense = replace(x, row=0)
    return RowProblem(
        "add", _label(x), (dense,), (x, dense),
        lambda o, i: kernels.add(*i, out=o[0]),
        torch.add,
        "add",
    )  # fmt: skip


FUNCTIONS = (
    _softmax, _rms_norm, _rms_norm_heads, _layer_norm, _add_rms_norm, _rms_norm_gradient,
    _layer_norm_gradient, _cross_entropy, _cross_entropy_gradient, _sum, _sum_columns, _max,
    _argmax, _embedding, _rope, _silu_mul, _gelu, _add,
)  # fmt: skip


def draw(seed: int, count: int, largest: int = LARGEST) -> Iterator[RowProblem]:
    """The first `count` problems of a seed; `largest` bounds their elements."""
    random = Random(seed)
    order: list[Callable[[Draw], RowProblem]] = []
    for _ in range(count):
        if not order:  # every function once before any comes again
            order = random.sample(FUNCTIONS, len(FUNCTIONS))
        yield order.pop()(Draw(random, largest))
