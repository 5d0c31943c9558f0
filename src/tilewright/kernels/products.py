"""What a matrix product is asked for: its operands checked, and seen as batches of matrices.

`product` refuses what cannot be computed, with the names of the call, before anything is launched.
What it gives is all that the kernels of this family need to know; none of them looks at how many
axes the caller's tensors have, or at whether one of them is transposed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16, f32, tf32
from tilewright.kernels.arguments import check_extents, check_one_device, check_tensor, output
from tilewright.kernels.epilogues import ACTIVATIONS
from tilewright.tune import Key, key_of

__all__ = ["LINE", "Product", "Request", "check_factors", "check_matrices", "exchanged", "product"]

NARROW = (f8e4m3fn, f8e5m2)
FACTORS = (*NARROW, f16, bf16, f32)  # what can be multiplied; sums are f32 whatever it is
SUMS = (*NARROW, f16, bf16, f32)  # what sums can be stored as
NARROW_OUT = bf16  # and are, of narrow factors, if nobody says
# Bytes, of which the places where rows begin are to be multiples.
LINE = 16


@dataclass(frozen=True)
class Request:
    """What a call asks for, its two factors aside: `activation(sums + bias) + residual`."""

    caller: str
    out: tw.Tensor | None = None
    out_dtype: type[tw.DType] | None = None
    bias: tw.Tensor | None = None
    activation: str | None = None
    residual: tw.Tensor | None = None
    tf32: bool = False
    fast_accumulate: bool = False

    def factor(self, dtype: type[tw.DType]) -> type[tw.DType]:
        """What elements of a dtype are multiplied as."""
        for name, allowed in (("tf32", (f32,)), ("fast_accumulate", NARROW)):
            if getattr(self, name) and dtype not in allowed:
                known = " or ".join(one.label for one in allowed)
                raise tw.LaunchError(
                    f"`{name}` of {self.caller} is for factors of {known}, and these are"
                    f" {dtype.label}: leave it out"
                )
        return tf32 if self.tf32 else dtype

    def result(self, shape: tuple[int, ...], a: tw.Tensor) -> tw.Tensor:
        """The tensor to write sums of this shape to."""
        dtype = self.out_dtype or (NARROW_OUT if a.dtype in NARROW else a.dtype)
        if self.out is not None and self.out_dtype is None:
            check_tensor(self.caller, "out", self.out, SUMS)
            dtype = self.out.dtype
        if dtype not in SUMS:
            known = ", ".join(one.label for one in SUMS)
            shown = getattr(dtype, "label", repr(dtype))
            raise tw.LaunchError(f"`out_dtype` of {self.caller} is one of {known}, not {shown}")
        return output(self.caller, self.out, shape, dtype, a)

    def number(self) -> int:
        """The activation as kernels know it."""
        if self.activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise tw.LaunchError(
                f"`activation` of {self.caller} is one of {known}, not {self.activation!r}"
            )
        return [*ACTIVATIONS].index(self.activation)

    def check_added(
        self, a: tw.Tensor, bias_shape: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        """Refuse a bias or a residual that has another shape."""
        for name, tensor, wanted in (
            ("bias", self.bias, bias_shape),
            ("residual", self.residual, shape),
        ):
            if tensor is not None:
                check_tensor(self.caller, name, tensor, SUMS)
                check_extents(self.caller, name, tensor, wanted)
                check_one_device(self.caller, **{"a": a, name: tensor})


@dataclass(frozen=True)
class Product:
    """A product that can be computed: `out = activation(a @ b + bias) + residual`."""

    out: tw.Tensor  # [batch, M, N]
    a: tw.Tensor  # [batch or 1, M, K]
    b: tw.Tensor  # [batch or 1, K, N]
    bias: tw.Tensor | None  # [1, 1, N]
    activation: int  # of `ACTIVATIONS`, by number
    residual: tw.Tensor | None  # [batch, M, N]
    factor: type[tw.DType]  # what elements are multiplied as
    is_fast: bool  # sums of narrow floats may be less exact

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K."""
        _, m, n = self.out.shape
        return m, n, self.a.shape[2]

    def columns(self, start: int, stop: int) -> Product:
        """The part of the product that has these columns."""
        place = (slice(None), slice(None), slice(start, stop))
        return replace(
            self,
            out=self.out[place],
            b=self.b[place],
            bias=None if self.bias is None else self.bias[place],
            residual=None if self.residual is None else self.residual[place],
        )

    @property
    def is_aligned(self) -> bool:
        """Whether tiles can be read by the units that read tiles: all rows begin at even places."""
        return all(_has_even_rows(one) for one in (self.a, self.b, self.out))

    @property
    def key(self) -> Key:
        """What decides which configuration is fast: bf16 is multiplied as fast as f16."""
        batch, m, n = self.out.shape
        factor = f16 if self.factor is bf16 else self.factor
        layout = "".join("n" if one.strides[2] == 1 else "t" for one in (self.a, self.b))
        return key_of(factor, (batch, m, n, self.a.shape[2]), layout=layout)

    @property
    def constants(self) -> dict[str, Any]:
        """What a kernel that multiplies is compiled for, its epilogue aside."""
        batch = self.out.shape[0]
        return {
            "FACTOR": self.factor,
            "IS_FAST": self.is_fast,
            "SHARED_A": batch > 1 and self.a.shape[0] == 1,
            "SHARED_B": batch > 1 and self.b.shape[0] == 1,
        }

    @property
    def epilogue(self) -> dict[str, Any]:
        """What a kernel that stores results is compiled for, and the tensors that it then reads.

        A tensor that is not wanted has a stand-in of as many axes.
        """
        return {
            "bias": self.a if self.bias is None else self.bias,
            "residual": self.a if self.residual is None else self.residual,
            "HAS_BIAS": self.bias is not None,
            "ACTIVATION": self.activation,
            "HAS_RESIDUAL": self.residual is not None,
        }

    @property
    def no_epilogue(self) -> dict[str, Any]:
        """The sums are stored as they are."""
        return {"bias": self.a, "residual": self.a}


def product(a: tw.Tensor, b: tw.Tensor, request: Request) -> tuple[Product, tw.Tensor]:
    """The product of two tensors of two or three axes, and the tensor that it is written to."""
    check_factors(request.caller, a, b)
    batches = {one.shape[:-2] for one in (a, b) if one.ndim > 2}
    if len(batches) > 1:
        raise tw.LaunchError(
            f"{request.caller} of batches multiplies each matrix of `a` by one of `b`, and shapes"
            f" {a.shape} and {b.shape} have different numbers of them"
        )
    shape = (*(batches.pop() if batches else ()), a.shape[-2], b.shape[-1])
    number, factor = request.number(), request.factor(a.dtype)
    request.check_added(a, shape[-1:], shape)
    result = request.result(shape, a)
    out, residual = result, request.residual
    # Where all matrices of `a` meet the same `b`, they are one matrix.
    alike = [one for one in (a, out, residual) if one is not None]
    if a.ndim > b.ndim and all(one.is_contiguous for one in alike):
        rows = shape[0] * shape[1]
        a, out = a.reshape(rows, a.shape[2]), out.reshape(rows, shape[2])
        residual = None if residual is None else residual.reshape(out.shape)
    made = Product(
        out=_batch(out),
        a=_batch(a),
        b=_batch(b),
        bias=None if request.bias is None else request.bias[None, None],
        activation=number,
        residual=None if residual is None else _batch(residual),
        factor=factor,
        is_fast=request.fast_accumulate,
    )
    return made, result


def check_factors(caller: str, a: tw.Tensor, b: tw.Tensor) -> None:
    """Two tensors that can be multiplied with each other."""
    check_matrices(caller, "a", a)
    check_matrices(caller, "b", b)
    check_one_device(caller, a=a, b=b)
    if a.dtype is not b.dtype:
        raise tw.LaunchError(
            f"{caller} multiplies tensors of one dtype, and `a` is {a.dtype.label} where `b` is"
            f" {b.dtype.label}: convert one of them, `.astype({a.dtype.label})`"
        )
    if a.shape[-1] != b.shape[-2]:
        raise tw.LaunchError(
            f"{caller} sums over the columns of `a` and the rows of `b`, of which there are"
            f" {a.shape[-1]} and {b.shape[-2]}: shapes {a.shape} and {b.shape}, transposed as asked"
        )


def check_matrices(
    caller: str, name: str, tensor: tw.Tensor, ranks: tuple[int, ...] = (2, 3)
) -> None:
    """A tensor that can be multiplied, a matrix or a batch of them."""
    check_tensor(caller, name, tensor, FACTORS)
    if tensor.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise tw.LaunchError(
            f"`{name}` of {caller} has {wanted} axes, the last two those of a matrix; shape"
            f" {tensor.shape} has {tensor.ndim}"
        )


def exchanged(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """A view with the last two axes exchanged."""
    check_matrices(caller, name, tensor)
    *before, rows, columns = range(tensor.ndim)
    return tensor.permute(*before, columns, rows)


def _batch(matrix: tw.Tensor) -> tw.Tensor:
    return matrix if matrix.ndim == 3 else matrix[None]


def _has_even_rows(matrices: tw.Tensor) -> bool:
    inner = [stride for stride in matrices.strides[1:] if stride != 1]
    outer = matrices.strides[:1] if matrices.shape[0] > 1 else ()
    places = (matrices.offset, *inner, *outer)
    return len(inner) < 2 and not any(place * matrices.itemsize % LINE for place in places)
