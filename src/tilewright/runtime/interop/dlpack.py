"""DLPack: the structures of its versions 0 and 1, and its numbers of dtypes.

A capsule is only read, never consumed: it is kept unchanged, so that its own destructor calls the
producer's deleter when the last of our tensors is gone. An exported capsule is made by NumPy, with
a deleter in C; the fields that NumPy cannot express are set here.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from tilewright.dtypes import (
    DType,
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tilewright.runtime.memory.layout import packed_strides

__all__ = [
    "CPU",
    "CUDA",
    "CUDA_HOST",
    "CUDA_MANAGED",
    "DLPACK_DTYPES",
    "VERSION",
    "CapsuleTensor",
    "describe_capsule",
    "look_into",
]

# The version that we implement; later minor ones agree in all fields that we read.
VERSION = (1, 1)

# Kinds of memory.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

# Code and bits of a dtype.
DLPACK_DTYPES: dict[type[DType], tuple[int, int]] = {
    i8: (0, 8), i16: (0, 16), i32: (0, 32), i64: (0, 64),
    u8: (1, 8), u16: (1, 16), u32: (1, 32), u64: (1, 64),
    f16: (2, 16), f32: (2, 32), f64: (2, 64), bf16: (4, 16), bool_: (6, 8),
    f8e4m3fn: (10, 8), f8e5m2: (12, 8), f8e8m0fnu: (14, 8),
}  # fmt: skip
_BY_CODE = {(*code, 1): dtype for dtype, code in DLPACK_DTYPES.items()}
_BY_CODE[17, 4, 2] = u8  # pairs of f4e2m1fn

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_READ_ONLY = 1  # a flag
_MOST_AXES = 64  # of an array of any library; a larger number is an invalid capsule


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class CapsuleTensor(NamedTuple):
    """The contents of a capsule."""

    kind: int
    number: int
    dtype: type[DType] | None
    dtype_code: tuple[int, int, int]
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    read_only: bool  # a capsule without a version cannot say, and counts as read-only


def look_into(capsule: Any) -> CapsuleTensor | None:
    """The contents of a capsule; None if it is of another version, or no DLPack capsule."""
    tensor, flags = _open(capsule)
    if tensor is None or not 0 <= tensor.ndim <= _MOST_AXES:
        return None
    if tensor.ndim and not tensor.shape:
        return None
    code = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    shape = tuple(tensor.shape[: tensor.ndim])
    return CapsuleTensor(
        tensor.device.kind,
        tensor.device.number,
        _BY_CODE.get(code),
        code,
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        tuple(tensor.strides[: tensor.ndim]) if tensor.strides else packed_strides(shape),
        bool(flags & _READ_ONLY),
    )


def describe_capsule(capsule: Any, dtype: type[DType], kind: int, number: int) -> Any:
    """Set the fields of our new capsule that NumPy cannot express: the dtype and the device."""
    tensor, _ = _open(capsule)
    assert tensor is not None, "NumPy made it a moment ago"
    tensor.dtype.code, tensor.dtype.bits = DLPACK_DTYPES[dtype]
    tensor.device.kind, tensor.device.number = kind, number
    return capsule


def _open(capsule: Any) -> tuple[_Tensor | None, int]:
    if _is_valid(capsule, _VERSIONED):
        managed = _ManagedVersioned.from_address(_pointer(capsule, _VERSIONED))
        if managed.major != VERSION[0]:
            return None, 0
        return managed.tensor, managed.flags
    if _is_valid(capsule, _PLAIN):
        return _Managed.from_address(_pointer(capsule, _PLAIN)).tensor, _READ_ONLY
    return None, 0
