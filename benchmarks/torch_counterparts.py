"""Library functions that torch has as one function, with operands for both.

Each of ours takes `out=`; torch's takes it where `takes_out` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import kernels

__all__ = ["COUNTERPARTS", "Counterpart"]

SIDE, TOKENS, CHANNELS, ENTRIES = 256, 128, 64, 1000  # of matrices; of a head; of a table
LARGEST = 8  # that `top_k` finds
BINS = 64

Operand = Callable[[np.random.Generator], np.ndarray]
Torch = Callable[[Any], Callable[..., Any]]  # a function of the module torch


@dataclass(frozen=True)
class Counterpart:
    """One library function and torch's."""

    name: str
    ours: Callable[..., Any]
    theirs: Torch
    operands: tuple[Operand, ...]
    takes_out: bool = False  # torch's
    is_random: bool = False  # the results differ by nature


def _floats(*shape: int) -> Operand:
    return lambda random: random.standard_normal(shape).astype(np.float16)


def _wide_floats(*shape: int) -> Operand:
    return lambda random: random.standard_normal(shape, np.float32)


def _indices(bound: int, *shape: int, dtype: type[np.integer] = np.int64) -> Operand:
    return lambda random: random.integers(bound, size=shape).astype(dtype)


def _lengths(value: int, *shape: int) -> Operand:
    return lambda _: np.full(shape, value, np.int32)


MATRIX, WIDE, ROW = _floats(SIDE, SIDE), _wide_floats(SIDE, SIDE), _floats(SIDE)
HEADS, STEP = _floats(1, 2, TOKENS, CHANNELS), _floats(1, 2, CHANNELS)


def _rms_norm(torch: Any) -> Callable[..., Any]:
    norm, shape = torch.nn.functional.rms_norm, (SIDE,)
    return lambda x, weight: norm(x, shape, weight, 1e-6)


def _layer_norm(torch: Any) -> Callable[..., Any]:
    norm, shape = torch.nn.functional.layer_norm, (SIDE,)
    return lambda x, weight, bias: norm(x, shape, weight, bias)


def _decode(torch: Any) -> Callable[..., Any]:
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda q, k, v, lengths: attend(q.unsqueeze(2), k, v)


def _histogram(torch: Any) -> Callable[..., Any]:
    if torch.cuda.is_available():
        return lambda x: torch.histc(x, BINS, 0, BINS - 1)
    return lambda x: torch.bincount(x, minlength=BINS)  # `histc` of the CPU takes no integers


def _reduction(name: str) -> Torch:
    return lambda torch: lambda x, **out: getattr(torch, name)(x, -1, **out)


COUNTERPARTS = (
    Counterpart("add", kernels.add, lambda torch: torch.add, (MATRIX, MATRIX), takes_out=True),
    Counterpart(
        "dropout", lambda x, **out: kernels.dropout(x, 0.5, seed=1, **out),
        lambda torch: torch.nn.functional.dropout, (MATRIX,), is_random=True,
    ),
    Counterpart("gelu", kernels.gelu, lambda torch: torch.nn.functional.gelu, (MATRIX,)),
    Counterpart(
        "transpose", kernels.transpose,
        lambda torch: lambda x: x.t().contiguous(), (MATRIX,),
    ),
    Counterpart(
        "histogram", lambda x, **out: kernels.histogram(x, BINS, **out),
        _histogram, (_indices(BINS, SIDE * SIDE, dtype=np.int32),),
    ),
    Counterpart("softmax", kernels.softmax,
        lambda torch: lambda x, **out: torch.softmax(x, -1, **out), (MATRIX,), takes_out=True,
    ),
    Counterpart(
        "cross_entropy", lambda x, labels, **out: kernels.cross_entropy(x, labels, **out),
        lambda torch: lambda x, labels: (
            torch.nn.functional.cross_entropy(x, labels, reduction="none"),
        ),
        (MATRIX, _indices(SIDE, SIDE)),
    ),
    Counterpart("rms_norm", kernels.rms_norm, _rms_norm, (MATRIX, ROW)),
    Counterpart("layer_norm", kernels.layer_norm, _layer_norm, (MATRIX, ROW, ROW)),
    Counterpart(
        "sum", lambda x, **out: kernels.sum(x, -1, **out), _reduction("sum"), (MATRIX,),
        takes_out=True,
    ),
    Counterpart(
        "mean", lambda x, **out: kernels.mean(x, -1, **out), _reduction("mean"), (MATRIX,),
        takes_out=True,
    ),
    Counterpart(
        "max", lambda x, **out: kernels.max(x, -1, **out), _reduction("amax"), (MATRIX,),
        takes_out=True,
    ),
    Counterpart(
        "min", lambda x, **out: kernels.min(x, -1, **out), _reduction("amin"), (MATRIX,),
        takes_out=True,
    ),
    Counterpart("argmax", kernels.argmax, _reduction("argmax"), (MATRIX,), takes_out=True),
    Counterpart(
        "top_k", lambda x, **out: kernels.top_k(x, LARGEST, **out),
        lambda torch: lambda x, **out: torch.topk(x, LARGEST, **out), (MATRIX,), takes_out=True,
    ),
    Counterpart("cumsum", kernels.cumsum, _reduction("cumsum"), (WIDE,), takes_out=True),
    Counterpart(
        "embedding", kernels.embedding, lambda torch: torch.nn.functional.embedding,
        (_indices(ENTRIES, SIDE), _floats(ENTRIES, SIDE)),
    ),
    Counterpart(
        "matmul", kernels.matmul, lambda torch: torch.matmul, (MATRIX, MATRIX), takes_out=True
    ),
    Counterpart("matmul, K split", kernels.matmul, lambda torch: torch.matmul,
        (_floats(16, 1 << 13), _floats(1 << 13, SIDE)), takes_out=True,
    ),
    Counterpart("matvec", kernels.matvec, lambda torch: torch.mv, (MATRIX, ROW), takes_out=True),
    Counterpart(
        "attention", kernels.attention,
        lambda torch: torch.nn.functional.scaled_dot_product_attention, (HEADS, HEADS, HEADS),
    ),
    Counterpart(
        "decode_attention", kernels.decode_attention, _decode,
        (STEP, HEADS, HEADS, _lengths(TOKENS, 1)),
    ),
)  # fmt: skip
