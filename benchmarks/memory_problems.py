"""The problems of `memory_bound.py`: functions and shapes, for the library and for torch.

torch functions take inputs and return outputs, so that torch.compile can generate its own kernel;
where torch has one call that writes into given memory, that call is the eager peer. A problem that
only writes into given memory has no other form. A problem that is random or has several correct
answers has its own measure of error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)

import tilewright as tw
from tilewright import f16, f32, i32, i64, kernels

__all__ = ["Argument", "Problem", "problems"]

# Rows by their width: at least 128 MB, so that no cache holds the outputs.
ROWS = {1024: 65536, 2560: 32768, 4096: 16384, 8192: 8192, 16384: 8192, 32768: 4096}
USUAL = 4096
VOCABULARY = 151936
SHARE = 0.1  # of dropout
BINS = 256
HIGHEST = 8  # elements of a row
Many = Sequence[Any]


@dataclass(frozen=True)
class Argument:
    """A tensor: normally distributed, or integers below a limit."""

    shape: tuple[int, ...]
    dtype: type[tw.DType] = f16
    below: int = 0

    @property
    def nbytes(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count * {f16: 2, f32: 4, i32: 4, i64: 8}[self.dtype]


@dataclass(frozen=True)
class Problem:
    """One function on one shape."""

    name: str  # of the library function
    title: str
    outs: tuple[Argument, ...]
    ins: tuple[Argument, ...]
    ours: Callable[[Many, Many], Any]
    theirs: Callable[..., Any] | None  # torch: inputs to output or outputs
    into: Callable[[Many, Many], Any] | None = None  # torch, into given memory
    moved: int = 0  # bytes, if not every tensor once
    limit: float = 1e-3  # of the relative error
    off: Callable[[Any, Many], float] | None = None  # error of the first output, from the inputs

    @property
    def nbytes(self) -> int:
        return self.moved or sum(one.nbytes for one in (*self.outs, *self.ins))


def _add_rms_norm(x: Any, y: Any, weight: Any) -> Any:
    total = x + y
    return F.rms_norm(total, weight.shape, weight, 1e-6), total


def _losses(x: Any, labels: Any) -> Any:
    log_sum = torch.logsumexp(x.float(), -1)
    return log_sum - x.gather(1, labels[:, None])[:, 0].float(), log_sum


def _gradient(x: Any, labels: Any, log_sum: Any, dloss: Any) -> Any:
    share = torch.exp(x.float() - log_sum[:, None])
    is_label = torch.arange(x.shape[1], device=x.device) == labels[:, None]
    return ((share - is_label.float()) * dloss[:, None]).to(x.dtype)


def _turned(x: Any, cosines: Any, sines: Any) -> Any:
    one, two = x.float().chunk(2, -1)
    turned = (one * cosines - two * sines, two * cosines + one * sines)
    return torch.cat(turned, -1).to(x.dtype)


def _turned_pairs(x: Any, cosines: Any, sines: Any) -> Any:
    one, two = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = (one * cosines - two * sines, two * cosines + one * sines)
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)


def _append(outs: Many, ins: Many) -> None:
    new, starts = ins[:2], ins[2]
    places = starts[:, None] + torch.arange(new[0].shape[2], device=starts.device)
    sequences = torch.arange(len(starts), device=starts.device)[:, None]
    for cache, rows in zip(outs, new, strict=True):
        cache[sequences, :, places] = rows.transpose(1, 2)


def _off_appended(keys: Any, ins: Many) -> float:
    k, starts = ins[0].float(), ins[2].tolist()
    there = [keys[b, :, at : at + k.shape[2]] for b, at in enumerate(starts)]
    return float((torch.stack(there).float() - k).norm() / k.norm())


def _off_dropped(z: Any, ins: Many) -> float:
    """Kept elements must be right, and so must the share of dropped ones."""
    x, dropped = ins[0].float(), z == 0
    wanted = torch.where(dropped, 0.0, x / (1 - SHARE))
    share = (dropped & (x != 0)).sum() / x.numel()
    off = (z.float() - wanted).norm() / wanted.norm()
    return float(off + (share - SHARE).abs() / SHARE)


def _off_highest(at: Any, ins: Many) -> float:
    """Equal elements are equally right."""
    found = ins[0].gather(1, at[:, None].long())[:, 0]
    return float((found != ins[0].amax(1)).float().mean())


def _in_rows(width: int, rows: int) -> Iterator[Problem]:
    x, weight, shape = Argument((rows, width)), Argument((width,)), f"{rows} x {width}"
    yield Problem(
        "softmax", shape, (x,), (x,),
        lambda o, i: kernels.softmax(i[0], out=o[0]),
        lambda x: torch.softmax(x, -1),
        lambda o, i: torch.softmax(i[0], -1, out=o[0]),
    )  # fmt: skip
    yield Problem(
        "rms_norm", shape, (x,), (x, weight),
        lambda o, i: kernels.rms_norm(i[0], i[1], out=o[0]),
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
    )  # fmt: skip
    yield Problem(
        "layer_norm", shape, (x,), (x, weight, weight),
        lambda o, i: kernels.layer_norm(*i, out=o[0]),
        lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
    )  # fmt: skip
    yield Problem(
        "add_rms_norm", shape, (x, x), (x, x, weight),
        lambda o, i: kernels.add_rms_norm(*i, out=(o[0], o[1])),
        _add_rms_norm,
    )  # fmt: skip


def _by_element() -> Iterator[Problem]:
    wide, x = Argument((1 << 28,), f32), Argument((8192, 12288))
    yield Problem(
        "add", "2^28 f32", (wide,), (wide, wide),
        lambda o, i: kernels.add(*i, out=o[0]),
        torch.add,
        lambda o, i: torch.add(*i, out=o[0]),
    )  # fmt: skip
    yield Problem(
        "silu_mul", "8192 x 12288", (x,), (x, x),
        lambda o, i: kernels.silu_mul(*i, out=o[0]),
        lambda gate, up: F.silu(gate) * up,
    )  # fmt: skip
    yield Problem(
        "gelu", "8192 x 12288", (x,), (x,),
        lambda o, i: kernels.gelu(i[0], out=o[0]),
        F.gelu,
    )  # fmt: skip
    yield Problem(
        "gelu_tanh", "8192 x 12288", (x,), (x,),
        lambda o, i: kernels.gelu(i[0], approximate="tanh", out=o[0]),
        lambda x: F.gelu(x, approximate="tanh"),
    )  # fmt: skip
    yield Problem(
        "dropout", "8192 x 12288", (x,), (x,),
        lambda o, i: kernels.dropout(i[0], SHARE, seed=7, out=o[0]),
        lambda x: F.dropout(x, SHARE),
        limit=2e-3,
        off=_off_dropped,
    )  # fmt: skip
    numbers = Argument((1 << 27,), i32, BINS)
    yield Problem(
        "histogram", f"2^27 i32, {BINS} bins", (Argument((BINS,), i32),), (numbers,),
        lambda o, i: kernels.histogram(i[0], BINS, out=o[0]),
        lambda x: torch.histc(x, BINS, 0, BINS),
    )  # fmt: skip


def _by_class() -> Iterator[Problem]:
    logits, labels = Argument((4096, VOCABULARY)), Argument((4096,), i64, VOCABULARY)
    line = Argument((4096,), f32)
    yield Problem(
        "cross_entropy", f"4096 x {VOCABULARY}", (line, line), (logits, labels),
        lambda o, i: kernels.cross_entropy(*i, out=(o[0], o[1])),
        _losses,
    )  # fmt: skip
    yield Problem(
        "cross_entropy_gradient", f"4096 x {VOCABULARY}", (logits,), (logits, labels, line, line),
        lambda o, i: kernels.cross_entropy_gradient(*i, out=o[0]),
        _gradient,
        limit=2e-3,
    )  # fmt: skip
    for width in (2560, 4096):
        rows, ids = Argument((16384, width)), Argument((16384,), i64, VOCABULARY)
        table = Argument((VOCABULARY, width))
        yield Problem(
            "embedding", f"16384 x {width}", (rows,), (ids, table),
            lambda o, i: kernels.embedding(*i, out=o[0]),
            lambda ids, table: F.embedding(ids, table),
            lambda o, i: torch.index_select(i[1], 0, i[0], out=o[0]),
            moved=2 * rows.nbytes + ids.nbytes,
        )  # fmt: skip


def _by_axis() -> Iterator[Problem]:
    x, everything, one = Argument((16384, 8192)), Argument((1 << 28,), f32), Argument((), f32)
    yield Problem(
        "sum", "rows, 16384 x 8192", (Argument((16384,)),), (x,),
        lambda o, i: kernels.sum(i[0], 1, out=o[0]),
        lambda x: x.sum(1),
        lambda o, i: torch.sum(i[0], 1, out=o[0]),
    )  # fmt: skip
    yield Problem(
        "sum_columns", "columns, 16384 x 8192", (Argument((8192,)),), (x,),
        lambda o, i: kernels.sum(i[0], 0, out=o[0]),
        lambda x: x.sum(0),
        lambda o, i: torch.sum(i[0], 0, out=o[0]),
    )  # fmt: skip
    yield Problem(
        "sum_all", "2^28 f32", (one,), (everything,),
        lambda o, i: kernels.sum(i[0], out=o[0]),
        torch.sum,
    )  # fmt: skip
    yield Problem(
        "cumsum", "rows, 16384 x 8192", (x,), (x,),
        lambda o, i: kernels.cumsum(i[0], out=o[0]),
        lambda x: torch.cumsum(x, 1),
        lambda o, i: torch.cumsum(i[0], 1, out=o[0]),
        limit=1e-2,  # torch rounds its running sums to f16
    )  # fmt: skip
    yield Problem(
        "argmax", "rows, 16384 x 8192", (Argument((16384,), i64),), (x,),
        lambda o, i: kernels.argmax(i[0], out=o[0]),
        lambda x: x.argmax(1),
        lambda o, i: torch.argmax(i[0], 1, out=o[0]),
        off=_off_highest,
    )  # fmt: skip
    highest = (Argument((16384, HIGHEST)), Argument((16384, HIGHEST), i64))
    yield Problem(
        "top_k", f"{HIGHEST} of rows, 16384 x 8192", highest, (x,),
        lambda o, i: kernels.top_k(i[0], HIGHEST, out=(o[0], o[1])),
        lambda x: torch.topk(x, HIGHEST),
        lambda o, i: torch.topk(i[0], HIGHEST, out=tuple(o)),
    )  # fmt: skip
    for dtype in (f16, f32):
        square = Argument((8192, 8192), dtype)
        yield Problem(
            "transpose", f"8192 x 8192 {dtype.label}", (square,), (square,),
            lambda o, i: kernels.transpose(i[0], out=o[0]),
            lambda x: x.T.contiguous(),
            lambda o, i: o[0].copy_(i[0].T),
        )  # fmt: skip


def _by_place() -> Iterator[Problem]:
    x, table = Argument((4, 32, 4096, 128)), Argument((4096, 64), f32)
    yield Problem(
        "rope", "4 x 32 x 4096 x 128", (x,), (x, table, table),
        lambda o, i: kernels.rope(*i, out=o[0]),
        _turned,
    )  # fmt: skip
    yield Problem(
        "rope_interleaved", "4 x 32 x 4096 x 128", (x,), (x, table, table),
        lambda o, i: kernels.rope(*i, interleaved=True, out=o[0]),
        _turned_pairs,
    )  # fmt: skip
    cache, new = Argument((8, 8, 8192, 128)), Argument((8, 8, 4096, 128))
    yield Problem(
        "append_kv", "8 x 8 x 4096 x 128", (cache, cache), (new, new, Argument((8,), i32, 4096)),
        lambda o, i: kernels.append_kv(*o, *i),
        None,
        _append,
        moved=4 * new.nbytes,
        off=_off_appended,
    )  # fmt: skip


def problems() -> Iterator[Problem]:
    """All problems: first each kernel at one shape, then rows of other widths."""
    yield from _by_element()
    yield from _in_rows(USUAL, ROWS[USUAL])
    yield from _by_class()
    yield from _by_axis()
    yield from _by_place()
    for width, rows in ROWS.items():
        if width != USUAL:
            yield from _in_rows(width, rows)
