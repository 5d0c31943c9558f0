"""Operands of a matrix product: checks, and views as batches of matrices.

`product` refuses an impossible product before any launch, with the names of the call. Its result
holds everything that the kernels of this family need; no kernel looks at the rank of the caller's
tensors or at transpositions. Decisions depend on the layout of the operands alone, so they are made
once for each layout (`ProductForm`); views of a handle are made once as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16, f32, tf32
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    output,
    reshaped,
    shown,
)
from tilewright.kernels.gemm.epilogues import ACTIVATIONS
from tilewright.kernels.large_tiles import CPU
from tilewright.kernels.views import kept
from tilewright.tune import Config, Key, key_of

__all__ = [
    "ALIGNMENT",
    "LINE",
    "MOST_FORMS",
    "NARROW",
    "Family",
    "MatrixProduct",
    "ProductForm",
    "ProductRequest",
    "batch_of",
    "check_factors",
    "check_matrices",
    "exchanged",
    "exchanged_batch",
    "has_even_rows",
    "one_matrix",
    "one_row",
    "only_matrix",
    "pitch_of",
    "product",
    "specialised",
    "swapped",
    "with_factors",
]

# 8-bit floats.
NARROW = (f8e4m3fn, f8e5m2)
FACTORS = (*NARROW, f16, bf16, f32)  # dtypes of factors; sums are f32 for each of them
SUMS = (*NARROW, f16, bf16, f32)  # dtypes in which sums are stored
NARROW_OUT = bf16  # default dtype of the result for 8-bit factors
ALIGNMENT = 16  # bytes; TMA reads rows that begin at multiples of it
LINE = 128  # bytes of a line of the cache
MOST_FORMS = 1024  # size of the cache; a program whose shapes never repeat must not grow


class Family(Enum):
    """Products whose tiles have costs of their own."""

    PLAIN = "plain"  # both factors have the dtype in which they are multiplied
    EXACT = "exact"  # 8-bit floats, whose sums are added in f32 in every step
    GROUPED = "grouped"  # 8-bit floats with a scale for each part of K
    CONVERTED = "converted"  # 8-bit floats that are multiplied in 16 bits
    CONVERTED_GROUPED = "converted, grouped"  # the same with a scale for each part of K


class ProductRequest(NamedTuple):
    """Options of a call, without its two factors: `activation(sums + bias) + residual`."""

    caller: str
    out: tw.Tensor | None = None
    out_dtype: type[tw.DType] | None = None
    bias: tw.Tensor | None = None
    activation: str | None = None
    residual: tw.Tensor | None = None
    tf32: bool = False
    fast_accumulate: bool = False
    transpose_a: bool = False
    transpose_b: bool = False

    def factor(self, dtype: type[tw.DType]) -> type[tw.DType]:
        """The dtype in which factors of a dtype are multiplied."""
        for name, allowed in (("tf32", (f32,)), ("fast_accumulate", NARROW)):
            if getattr(self, name) and dtype not in allowed:
                known = " or ".join(one.label for one in allowed)
                raise tw.LaunchError(
                    f"`{name}` of {self.caller} is for factors of {known}, and these are"
                    f" {dtype.label}: leave it out"
                )
        return tf32 if self.tf32 else dtype

    def sums(self, a: tw.Tensor) -> type[tw.DType]:
        """The dtype in which sums are stored."""
        dtype = self.out_dtype or (NARROW_OUT if a.dtype in NARROW else a.dtype)
        if self.out is not None and self.out_dtype is None:
            check_tensor(self.caller, "out", self.out, SUMS)
            dtype = self.out.dtype
        if dtype not in SUMS:
            known = ", ".join(one.label for one in SUMS)
            shown = getattr(dtype, "label", repr(dtype))
            raise tw.LaunchError(f"`out_dtype` of {self.caller} is one of {known}, not {shown}")
        return dtype

    def number(self) -> int:
        """The activation as a number, which kernels are compiled for."""
        if self.activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise tw.LaunchError(
                f"`activation` of {self.caller} is one of {known}, not {shown(self.activation)}"
            )
        return [*ACTIVATIONS].index(self.activation)

    def check_added(
        self, a: tw.Tensor, bias_shape: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        """Refuse a bias or a residual of another shape."""
        for name, tensor, wanted in (
            ("bias", self.bias, bias_shape),
            ("residual", self.residual, shape),
        ):
            if tensor is not None:
                check_tensor(self.caller, name, tensor, SUMS)
                check_extents(self.caller, name, tensor, wanted)
                check_one_device(self.caller, **{"a": a, name: tensor})


@dataclass(frozen=True, eq=False)
class ProductForm:
    """Properties shared by all products whose operands have the same layout."""

    batch: int
    shape: tuple[int, int, int]  # M, N, K
    result: tuple[tuple[int, ...], type[tw.DType]]  # the shape that the caller sees, and the dtype
    factor: type[tw.DType]  # dtype in which elements are multiplied
    target: str
    layout: str  # of each factor: `n` as it is, `t` transposed
    is_aligned: bool  # rows of the factors begin at addresses that TMA accepts
    itemsize: int  # bytes of an element of the factors
    pitches: tuple[int, int]  # bytes between the rows of each factor, as stored
    is_one_matrix: bool  # the matrices of `a`, stacked, are one matrix
    constants: dict[str, Any]  # constants of a kernel that multiplies, without the epilogue's
    epilogue: dict[str, Any]  # constants of a kernel that stores results
    family: Family = Family.PLAIN
    depth: int | None = None  # elements of K that a step takes, if not any number

    @property
    def is_tensor_core(self) -> bool:
        """Whether the factors are multiplied by tensor cores of a GPU."""
        return self.target != CPU and self.factor is not f32

    @cached_property
    def key(self) -> Key:
        """The key of a tuned record; bf16 is multiplied as fast as f16."""
        factor = f16 if self.factor is bf16 else self.factor
        options: dict[str, Any] = {"fast": True} if self.constants["IS_FAST"] else {}
        if self.family is not Family.PLAIN:
            options["family"] = self.family.value
        return key_of(factor, (self.batch, *self.shape), layout=self.layout, **options)


class MatrixProduct(NamedTuple):
    """A checked product: `out = activation(a @ b + bias) + residual`."""

    out: tw.Tensor  # [batch, M, N]
    a: tw.Tensor  # [batch or 1, M, K]
    b: tw.Tensor  # [batch or 1, K, N]
    bias: tw.Tensor  # [1, 1, N], or a stand-in of the same rank
    residual: tw.Tensor  # [batch, M, N], or a stand-in
    form: ProductForm
    is_new: bool = False  # the output is a new tensor that the caller does not hold yet


_forms: dict[tuple[Any, ...], ProductForm] = {}


def product(a: tw.Tensor, b: tw.Tensor, request: ProductRequest) -> tuple[MatrixProduct, tw.Tensor]:
    """The product of two tensors of two axes or more, with the tensor of its result."""
    key = _form_key(a, b, request)
    form = _forms.get(key)
    if form is None:
        form = _form(a, b, request)
        if len(_forms) >= MOST_FORMS:
            _forms.clear()
        _forms[key] = form
    see = one_matrix if form.is_one_matrix else batch_of
    result = request.out
    if result is None:
        shape, dtype = form.result
        result = tw.empty(shape, dtype, device=a.device)
        out = see(result)
    else:
        out = kept(result, see)
    left = kept(a, exchanged_batch if request.transpose_a else see)
    right = kept(b, exchanged_batch if request.transpose_b else batch_of)
    made = MatrixProduct(
        out, left, right,
        left if request.bias is None else kept(request.bias, one_row),
        left if request.residual is None else kept(request.residual, see), form,
        is_new=request.out is None,
    )  # fmt: skip
    return made, result


def with_factors(wanted: MatrixProduct, a: tw.Tensor, b: tw.Tensor) -> MatrixProduct:
    """The same product of other tensors with the same elements, whose rows are even."""
    form = replace(wanted.form, is_aligned=True, pitches=(pitch_of(a), pitch_of(b)))
    # A stand-in for an unused operand of the epilogue is the first factor.
    bias, residual = (a if one is wanted.a else one for one in (wanted.bias, wanted.residual))
    return wanted._replace(a=a, b=b, bias=bias, residual=residual, form=form)


def swapped(wanted: MatrixProduct) -> MatrixProduct:
    """The transposed product, `out.T = b.T @ a.T`, of one without a bias."""
    out, a, b = (kept(one, exchanged_batch) for one in wanted[:3])
    is_added = wanted.form.epilogue["HAS_RESIDUAL"]
    residual = kept(wanted.residual, exchanged_batch) if is_added else b
    shared = wanted.form.constants["SHARED_A"], wanted.form.constants["SHARED_B"]
    form = _turned(wanted.form) if any(shared) else wanted.form
    return MatrixProduct(out, b, a, b, residual, form, is_new=wanted.is_new)


@lru_cache(maxsize=MOST_FORMS)
def _turned(form: ProductForm) -> ProductForm:
    """The form with the roles of its factors exchanged."""
    was = form.constants
    turned = {"SHARED_A": was["SHARED_B"], "SHARED_B": was["SHARED_A"]}
    return replace(form, constants={**was, **turned})


def _form_key(a: tw.Tensor, b: tw.Tensor, request: ProductRequest) -> tuple[Any, ...]:
    """The key of a form: layouts of the tensors, and options of the call."""
    operands = (a, b, request.out, request.bias, request.residual)
    # An argument that is no tensor is refused, so it needs no key.
    alike = [getattr(operand, "spec", operand.__class__) for operand in operands]
    return (*alike, request.caller, request.out_dtype, request.activation, *request[6:])


def _form(a: tw.Tensor, b: tw.Tensor, request: ProductRequest) -> ProductForm:
    """Decide all properties of a product, or refuse it."""
    caller, is_plain = request.caller, not request.transpose_a
    a = a if is_plain else exchanged(caller, "a", a)
    b = exchanged(caller, "b", b) if request.transpose_b else b
    check_factors(caller, a, b)
    batches = {one.shape[:-2] for one in (a, b) if one.ndim > 2}
    if len(batches) > 1:
        raise tw.LaunchError(
            f"{caller} of batches multiplies each matrix of `a` by one of `b`, and shapes"
            f" {a.shape} and {b.shape} have different numbers of them"
        )
    shape = (*(batches.pop() if batches else ()), a.shape[-2], b.shape[-1])
    number, factor, sums = request.number(), request.factor(a.dtype), request.sums(a)
    request.check_added(a, shape[-1:], shape)
    out = output(caller, request.out, shape, sums, a)
    # Matrices of `a` that are all multiplied by one `b` are one matrix.
    alike = [one for one in (a, out, request.residual) if one is not None]
    is_one_matrix = is_plain and a.ndim > b.ndim == 2 and all(one.is_contiguous for one in alike)
    batch = 1 if is_one_matrix else prod(shape[:-2])
    rows = prod(shape[:-1]) if is_one_matrix else shape[-2]
    a, b, out = (_one_batch(caller, *one) for one in (("a", a), ("b", b), ("out", out)))
    if request.residual is not None:
        _one_batch(caller, "residual", request.residual)
    return ProductForm(
        batch=batch,
        shape=(rows, shape[-1], a.shape[-1]),
        result=(shape, sums),
        factor=factor,
        target=a.device.target,
        layout="".join("n" if one.strides[-1] == 1 else "t" for one in (a, b)),
        is_aligned=has_even_rows(a) and has_even_rows(b),
        itemsize=a.itemsize,
        pitches=(pitch_of(a), pitch_of(b)),
        is_one_matrix=is_one_matrix,
        constants={
            "FACTOR": factor,
            "IS_FAST": request.fast_accumulate,
            "SHARED_A": batch > 1 and a.ndim == 2,
            "SHARED_B": batch > 1 and b.ndim == 2,
        },
        epilogue={
            "HAS_BIAS": request.bias is not None,
            "ACTIVATION": number,
            "HAS_RESIDUAL": request.residual is not None,
        },
    )


@lru_cache(maxsize=MOST_FORMS)
def specialised(
    kernel: tw.Kernel, form: ProductForm, config: Config, *, is_last: bool = True
) -> tuple[tw.Kernel, dict[str, Any]]:
    """A kernel of this family with its hints, and the constants that it takes.

    Only the last kernel of a product applies bias, activation and residual.
    """
    known = {**form.constants, **form.epilogue} if is_last else form.constants
    chosen = Config.from_values({**known, **dict(config.constants)})
    return config.applied_to(kernel), chosen.arguments(kernel)


def check_factors(caller: str, a: tw.Tensor, b: tw.Tensor) -> None:
    """Refuse two tensors that cannot be multiplied with each other."""
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


def check_matrices(caller: str, name: str, tensor: tw.Tensor, rank: int | None = None) -> None:
    """Refuse an operand that is no matrix or, unless its rank is given, no batch of matrices."""
    check_tensor(caller, name, tensor, FACTORS)
    if tensor.ndim < 2 or rank not in (None, tensor.ndim):
        raise tw.LaunchError(
            f"`{name}` of {caller} has {rank or '2 or more'} axes, the last two those of a matrix;"
            f" shape {tensor.shape} has {tensor.ndim}"
        )


def exchanged(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """A view with the last two axes exchanged."""
    check_matrices(caller, name, tensor)
    *before, rows, columns = range(tensor.ndim)
    return tensor.permute(*before, columns, rows)


def _one_batch(caller: str, name: str, matrices: tw.Tensor) -> tw.Tensor:
    """A view with all batch axes merged into one, if there are several."""
    if matrices.ndim <= 3:
        return matrices
    *batch, rows, columns = matrices.shape
    return reshaped(caller, name, matrices, (prod(batch), rows, columns))


# --- views: each refers to memory, not to the handle it is made of --------------------------------


def batch_of(matrices: tw.Tensor) -> tw.Tensor:
    """A view with three axes."""
    if matrices.ndim == 2:
        return matrices[None]
    *batch, rows, columns = matrices.shape
    return matrices[:] if len(batch) == 1 else matrices.reshape(prod(batch), rows, columns)


def exchanged_batch(matrices: tw.Tensor) -> tw.Tensor:
    """A view with three axes, the last two exchanged."""
    return batch_of(matrices).permute(0, 2, 1)


def one_matrix(matrices: tw.Tensor) -> tw.Tensor:
    """Stacked matrices as a batch of one matrix."""
    *rows, columns = matrices.shape
    return matrices.reshape(1, prod(rows), columns)


def only_matrix(batch: tw.Tensor) -> tw.Tensor:
    """The only matrix of a batch of one."""
    return batch[0]


def one_row(bias: tw.Tensor) -> tw.Tensor:
    """A line as a batch of one matrix with one row."""
    return bias[None, None]


def pitch_of(matrices: tw.Tensor) -> int:
    """Bytes between the rows of a matrix, as it is stored."""
    return max(matrices.strides[-2:]) * matrices.itemsize


def has_even_rows(matrices: tw.Tensor) -> bool:
    """Whether the rows of every matrix, as stored, begin at addresses that TMA accepts."""
    *batch, rows, columns = matrices.strides
    inner = [stride for stride in (rows, columns) if stride != 1]
    outer = batch if matrices.ndim > 2 and matrices.shape[0] > 1 else []
    places = (matrices.offset, *inner, *outer)
    return len(inner) < 2 and not any(place * matrices.itemsize % ALIGNMENT for place in places)
