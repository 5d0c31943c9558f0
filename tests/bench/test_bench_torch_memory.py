"""What torch is told of a tensor's memory, where torch has no GPU to look at it with."""

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw

torch = pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import torch_memory  # noqa: E402


def _read(exported, device):
    """As torch reads the protocol: the type by NumPy, then the bytes where they are."""
    assert device == "cuda"
    told = exported.__cuda_array_interface__
    dtype = np.dtype(told["typestr"])
    address, read_only = told["data"]
    assert not read_only
    assert address, "a tensor without bytes has no address"
    count = int(np.prod(told["shape"], dtype=int))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.from_numpy(np.frombuffer(memory, dtype).reshape(told["shape"]))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (tw.f16, "float16"), (tw.bf16, "bfloat16"), (tw.f32, "float32"), (tw.f64, "float64"),
        (tw.f8e4m3fn, "float8_e4m3fn"), (tw.f8e5m2, "float8_e5m2"),
        (tw.i32, "int32"), (tw.i64, "int64"), (tw.u8, "uint8"),
    ],
)  # fmt: skip
def test_the_same_bytes_under_torchs_name(dtype, name, monkeypatch):
    monkeypatch.setattr(torch_memory.torch, "as_tensor", _read)
    drawn = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = tw.from_numpy(drawn).astype(dtype)
    seen = torch_memory.as_torch(tensor)
    assert seen.dtype is getattr(torch, name)
    np.testing.assert_array_equal(seen.float().numpy(), drawn)
    seen.copy_(torch.ones(2, 3).to(seen.dtype))
    np.testing.assert_array_equal(tensor.numpy().astype(np.float32), np.ones((2, 3)))


def test_a_tensor_that_was_never_used_gets_its_bytes(monkeypatch):
    monkeypatch.setattr(torch_memory.torch, "as_tensor", _read)
    assert torch_memory.as_torch(tw.empty((4,), tw.f32)).shape == (4,)
