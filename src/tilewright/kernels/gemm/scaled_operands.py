"""Operands of a product with scales: checks, and which rows and parts of K share a scale.

The shape of a scale says its kind. Along the rows of a factor (the columns of `b`) it has one
element, one for each row, or one for each block of 128; along K it has one element, or one for each
part of 128. `scaled_product` refuses every other shape before any launch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import bf16, f16, f32
from tilewright.kernels.arguments import check_one_device, check_tensor, output, reshaped
from tilewright.kernels.gemm.operands import (
    MOST_FORMS,
    NARROW,
    Family,
    MatrixProduct,
    ProductForm,
    ProductRequest,
    batch_of,
    check_matrices,
    exchanged,
    has_even_rows,
    one_matrix,
    one_row,
    pitch_of,
    swapped,
)
from tilewright.kernels.gemm.scaling import BLOCKS, EACH, GROUP, NO_SCALE, SHARED
from tilewright.kernels.large_tiles import CPU
from tilewright.kernels.views import kept

__all__ = ["ScaledProduct", "is_turned", "scaled_product", "swapped_scaled"]

FACTORS = (*NARROW, f16, bf16)
SCALES = (f32, bf16, f16)
# Rows of the other factor from which a copy of a factor along K is faster than products of f16.
WORTH_TURNING = 512


class ScaledProduct(NamedTuple):
    """A checked product: `out = activation((a * a_scale) @ (b * b_scale) + bias) + residual`."""

    product: MatrixProduct
    a_scale: tw.Tensor  # [rows, 1, parts of K], or a stand-in of the same rank
    b_scale: tw.Tensor  # [columns, 1, parts of K], or a stand-in


class ScaleKind(NamedTuple):
    """Which rows share a scale, and whether scales change along K."""

    spread: int = NO_SCALE
    has_parts: bool = False


_forms: dict[tuple[Any, ...], ProductForm] = {}


def scaled_product(
    a: tw.Tensor,
    b: tw.Tensor,
    scales: tuple[tw.Tensor | None, tw.Tensor | None],
    request: ProductRequest,
) -> tuple[ScaledProduct, tw.Tensor]:
    """The product of two factors with their scales, and the tensor of its result."""
    operands = (a, b, *scales, request.out, request.bias, request.residual)
    # An argument that is no tensor is refused, so it needs no key.
    alike = [getattr(operand, "spec", operand.__class__) for operand in operands]
    key = (*alike, request.out_dtype, request.activation, *request[6:])
    form = _forms.get(key)
    if form is None:
        form = _form(a, b, scales, request)
        if len(_forms) >= MOST_FORMS:
            _forms.clear()
        _forms[key] = form
    shape, dtype = form.result
    result = tw.empty(shape, dtype, device=a.device) if request.out is None else request.out
    left = kept(a, turned_rows if request.transpose_a else one_matrix)
    right = kept(b, turned_rows if request.transpose_b else batch_of)
    made = MatrixProduct(
        kept(result, one_matrix), left, right,
        left if request.bias is None else kept(request.bias, one_row),
        left if request.residual is None else kept(request.residual, one_matrix), form,
        is_new=request.out is None,
    )  # fmt: skip
    lead = shape[:-1] if len(shape) > 2 else ()
    a_scale = left if scales[0] is None else kept(scales[0], three_axes, lead, request.transpose_a)
    turned_b = not request.transpose_b
    b_scale = left if scales[1] is None else kept(scales[1], three_axes, (), turned_b)
    return ScaledProduct(made, a_scale, b_scale), result


def swapped_scaled(wanted: ScaledProduct) -> ScaledProduct:
    """The transposed product, of one without a bias."""
    turned = swapped(wanted.product)
    product = turned._replace(form=_with_roles_exchanged(turned.form))
    return ScaledProduct(product, wanted.b_scale, wanted.a_scale)


def is_turned(form: ProductForm, factor: tw.Tensor, axis: int) -> bool:
    """Whether a factor is copied because 8-bit floats are multiplied along K only."""
    return form.target != CPU and form.factor in NARROW and factor.strides[axis] != 1


@lru_cache(maxsize=MOST_FORMS)
def _with_roles_exchanged(form: ProductForm) -> ProductForm:
    was = form.constants
    of_a = {"A_SCALE": was["B_SCALE"], "A_PARTS": was["B_PARTS"]}
    of_b = {"B_SCALE": was["A_SCALE"], "B_PARTS": was["A_PARTS"]}
    return replace(form, constants={**was, **of_a, **of_b})


# --- checks ---------------------------------------------------------------------------------------


def _form(
    a: tw.Tensor,
    b: tw.Tensor,
    scales: tuple[tw.Tensor | None, tw.Tensor | None],
    request: ProductRequest,
) -> ProductForm:
    """Decide all properties of a product, or refuse it."""
    caller = request.caller
    _check_factors(a, b, request)
    a = exchanged(caller, "a", a) if request.transpose_a else a
    b = exchanged(caller, "b", b) if request.transpose_b else b
    *lead, k = a.shape
    if k != b.shape[0]:
        raise tw.LaunchError(
            f"{caller} sums over the columns of `a` and the rows of `b`, of which there are"
            f" {k} and {b.shape[0]}: shapes {a.shape} and {b.shape}, transposed as asked"
        )
    shape = (*lead, b.shape[1])
    m, n = prod(lead), b.shape[1]
    number, sums = request.number(), request.sums(a)
    request.check_added(a, shape[-1:], shape)
    out = output(caller, request.out, shape, sums, a)
    a = reshaped(caller, "a", a, (m, k))
    for name, one in (("out", out), ("residual", request.residual)):
        if one is not None:
            reshaped(caller, name, one, (m, n))
    lead_axes = tuple(lead) if len(lead) > 1 else ()
    kinds = (
        _kind(caller, ("a_scale", scales[0]), a, (m, k), (lead_axes, request.transpose_a)),
        _kind(caller, ("b_scale", scales[1]), b, (n, k), ((), not request.transpose_b)),
    )
    has_parts = any(kind.has_parts for kind in kinds)
    factor = _factor(a, b, (m, n))
    if request.fast_accumulate:
        _check_fast(request, factor, has_parts)
    return ProductForm(
        batch=1,
        shape=(m, n, k),
        result=(shape, sums),
        factor=factor,
        target=a.device.target,
        layout="".join("n" if one.strides[-1] == 1 else "t" for one in (a, b)),
        is_aligned=has_even_rows(a) and has_even_rows(b),
        itemsize=max(a.itemsize, b.itemsize),
        pitches=(pitch_of(a), pitch_of(b)),
        is_one_matrix=False,
        constants={
            "FACTOR": factor, "IS_FAST": request.fast_accumulate,
            "SHARED_A": False, "SHARED_B": False,
            "A_SCALE": kinds[0].spread, "A_PARTS": kinds[0].has_parts,
            "B_SCALE": kinds[1].spread, "B_PARTS": kinds[1].has_parts,
        },
        epilogue={
            "HAS_BIAS": request.bias is not None,
            "ACTIVATION": number,
            "HAS_RESIDUAL": request.residual is not None,
        },
        family=_family(factor, has_parts=has_parts, is_fast=request.fast_accumulate),
        depth=GROUP if has_parts else None,
    )  # fmt: skip


def _family(factor: type[tw.DType], *, has_parts: bool, is_fast: bool) -> Family:
    """The family of tiles that a product chooses from."""
    if factor not in NARROW:
        return Family.CONVERTED_GROUPED if has_parts else Family.CONVERTED
    if has_parts:
        return Family.GROUPED
    return Family.PLAIN if is_fast else Family.EXACT


def _check_factors(a: tw.Tensor, b: tw.Tensor, request: ProductRequest) -> None:
    """Refuse factors of other dtypes or ranks."""
    caller = request.caller
    check_tensor(caller, "a", a, FACTORS)
    check_tensor(caller, "b", b, FACTORS)
    check_matrices(caller, "a", a, rank=2 if request.transpose_a else None)
    check_matrices(caller, "b", b, rank=2)
    check_one_device(caller, a=a, b=b)
    if {a.dtype, b.dtype} == {f16, bf16}:
        raise tw.LaunchError(
            f"{caller} multiplies f16 and bf16 in neither of them exactly: convert one,"
            f" `b.astype({a.dtype.label})`"
        )


def _check_fast(request: ProductRequest, factor: type[tw.DType], has_parts: bool) -> None:
    """Refuse fast sums where there are none."""
    if has_parts:
        raise tw.LaunchError(
            f"`fast_accumulate` of {request.caller} is for scales that are the same for all of K;"
            " the sum of each part of 128 is scaled in f32: leave it out"
        )
    request.factor(factor)


def _factor(a: tw.Tensor, b: tw.Tensor, shape: tuple[int, int]) -> type[tw.DType]:
    """The dtype in which elements are multiplied, which holds those of both factors.

    Tensor cores multiply 8-bit floats along K only. Factors that are stored otherwise are copied,
    or multiplied in f16, where few rows of the other factor do not make up for a copy.
    """
    dtypes = {a.dtype, b.dtype}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        if dtype not in NARROW or a.device.target == CPU:
            return dtype
        m, n = shape
        stays = (a.strides[1] != 1 and n < WORTH_TURNING) or (
            b.strides[0] != 1 and m < WORTH_TURNING
        )
        return f16 if stays else dtype
    return bf16 if bf16 in dtypes else f16


def _kind(
    caller: str,
    named: tuple[str, tw.Tensor | None],
    factor: tw.Tensor,
    extents: tuple[int, int],
    lies: tuple[tuple[int, ...], bool],
) -> ScaleKind:
    """Which rows and parts of K share a scale, by its shape."""
    name, scale = named
    if scale is None:
        return ScaleKind()
    check_tensor(caller, name, scale, SCALES)
    check_one_device(caller, **{name[0]: factor, name: scale})
    rows, k = extents
    blocks, parts = -(-rows // GROUP), -(-k // GROUP)
    shape = matrix_of(scale, *lies).shape
    spreads = {blocks: BLOCKS, rows: EACH, 1: SHARED}
    if len(shape) == 2 and shape[0] in spreads and shape[1] in (1, parts):
        return ScaleKind(spreads[shape[0]], has_parts=shape[1] > 1)
    wanted = dict.fromkeys([(rows, 1), (rows, parts), (blocks, parts)])
    known = ", ".join(str(one[::-1] if lies[1] else one) for one in wanted)
    raise tw.LaunchError(
        f"`{name}` of {caller} has shape {scale.shape}: a factor of {rows} rows and {k} elements"
        f" along K takes one number, ({rows},), {known}; blocks of rows and parts of K are {GROUP}"
        " long"
    )


# --- views: each refers to memory, not to the handle it is made of --------------------------------


def turned_rows(matrix: tw.Tensor) -> tw.Tensor:
    """A matrix with its axes exchanged, as a batch of one."""
    return matrix.T[None]


def matrix_of(scale: tw.Tensor, lead: tuple[int, ...], is_turned: bool) -> tw.Tensor:
    """Scales as `[rows, parts of K]`; a shape that is no such matrix stays as it is.

    `lead` are the axes of rows, if there are several.
    """
    if scale.size == 1:
        return scale.reshape(1, 1)
    if scale.ndim == 1 or (lead and scale.shape == lead):
        return scale.reshape(scale.size, 1)
    if lead and scale.shape[:-1] == lead:
        return scale.reshape(prod(lead), scale.shape[-1])
    return scale.T if is_turned and scale.ndim == 2 else scale


def three_axes(scale: tw.Tensor, lead: tuple[int, ...], is_turned: bool) -> tw.Tensor:
    """Scales as `[rows, 1, parts of K]`, which kernels take."""
    return matrix_of(scale, lead, is_turned).unsqueeze(1)
