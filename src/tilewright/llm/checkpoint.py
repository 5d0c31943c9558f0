"""Checkpoints: weights read from files into the tensors of a model.

Every tensor of the model is looked up, and its shape and dtype are compared, before the first byte
of weights is read. Then each part is copied to its rows of a tensor on the device, a slab of rows
at a time: no weight is in memory twice, whatever the checkpoint's dtype. A weight that is not
finite is refused where it is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

import tilewright as tw
from tilewright import bf16, f16, f32
from tilewright.llm.config import ModelConfig
from tilewright.llm.errors import ModelError
from tilewright.llm.weights import DeclaredWeight, ModelWeights, Part, assembled, declared_weights

__all__ = ["Checkpoint", "Progress", "SafetensorsCheckpoint", "load_weights"]

Progress = Callable[[int, int], None]  # bytes of weights on the device so far, and of all
Array = npt.NDArray[Any]

SLAB = 64 << 20  # bytes that are read at a time
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
DTYPES = {"F32": f32, "F16": f16, "BF16": bf16}
# Bits of the exponent: all of them are set in infinities and NaNs, and in nothing else.
EXPONENTS = {f32: (np.uint32, 0x7F800000), f16: (np.uint16, 0x7C00), bf16: (np.uint16, 0x7F80)}


class Checkpoint(Protocol):
    """Weights by the names of a checkpoint."""

    @property
    def source(self) -> str:
        """The path, for messages."""

    def shapes(self) -> Mapping[str, tuple[tuple[int, ...], type[tw.DType]]]:
        """Shape and dtype of every weight."""

    def read(self, name: str, begin: int, end: int) -> Array:
        """Rows `begin` to `end` of a weight."""


class SafetensorsCheckpoint:
    """A folder with one safetensors file, or with several and an index."""

    def __init__(self, folder: Path) -> None:
        self.source = str(folder)
        self._files = {path: _opened(path) for path in _files_of(folder)}
        self._homes = {name: file for file in self._files.values() for name in file.keys()}  # noqa: SIM118 (no iterator)
        _check_index(folder, self._homes)

    def shapes(self) -> Mapping[str, tuple[tuple[int, ...], type[tw.DType]]]:
        """Shape and dtype of every weight; a weight of an unknown dtype is refused."""
        found = {}
        for name, file in self._homes.items():
            part = file.get_slice(name)
            dtype = DTYPES.get(part.get_dtype())
            if dtype is None:
                raise ModelError(
                    f"{self.source}: {name} is {part.get_dtype()}, and weights are one of"
                    f" {', '.join(DTYPES)}"
                )
            found[name] = (tuple(part.get_shape()), dtype)
        return found

    def read(self, name: str, begin: int, end: int) -> Array:
        """Rows `begin` to `end` of a weight."""
        try:
            return np.asarray(self._homes[name].get_slice(name)[begin:end])
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.source}: {name} cannot be read: {error}") from None


def load_weights(
    checkpoint: Checkpoint,
    config: ModelConfig,
    dtype: type[tw.DType],
    device: tw.Device,
    progress: Progress | None = None,
) -> ModelWeights:
    """The weights of a model on a device, in a dtype.

    Names that the model does not use, such as the head of a tied model, are not read.
    """
    declared = tuple(declared_weights(config))
    _check(checkpoint, declared)
    itemsize = tw.empty((1,), dtype, device="cpu").itemsize
    total = sum(prod(one.shape) for one in declared) * itemsize
    done, tensors = 0, {}
    for one in declared:
        tensor = tw.empty(one.shape, dtype, device=device)
        rows = tensor.reshape(-1, *one.parts[0].shape[1:])
        first = 0
        for part in one.parts:
            for begin, slab in _slabs(checkpoint, part, itemsize):
                here = rows[first + begin : first + begin + len(slab)]
                tw.copy(here, _on_device(slab, dtype, device)).submit()
                done += slab.size * itemsize
                if progress is not None:
                    progress(done, total)
            first += part.shape[0]
        tensors[one.name] = tensor
    device.synchronize()
    return assembled(config, tensors)


def _check(checkpoint: Checkpoint, declared: tuple[DeclaredWeight, ...]) -> None:
    """Refuse a checkpoint that lacks a weight of the model, or has it in another shape."""
    found = checkpoint.shapes()
    parts = [part for one in declared for part in one.parts]
    missing = [part.name for part in parts if part.name not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"{checkpoint.source} lacks the weight {missing[0]}{more}")
    for part in parts:
        shape, _ = found[part.name]
        if shape != part.shape:
            raise ModelError(
                f"{checkpoint.source}: {part.name} has the shape {shape}, and config.json asks for"
                f" {part.shape}"
            )


def _slabs(checkpoint: Checkpoint, part: Part, itemsize: int) -> Any:
    """The rows of a part, some at a time, each with the number of its first row."""
    step = max(1, SLAB // (prod(part.shape[1:]) * itemsize))
    for begin in range(0, part.shape[0], step):
        slab = checkpoint.read(part.name, begin, min(begin + step, part.shape[0]))
        _check_finite(checkpoint, part, slab)
        yield begin, slab


def _check_finite(checkpoint: Checkpoint, part: Part, slab: Array) -> None:
    dtype = tw.from_numpy(slab[:0], device="cpu").dtype
    kind, exponent = EXPONENTS[dtype]
    if bool(np.any((np.ascontiguousarray(slab).view(kind) & kind(exponent)) == exponent)):
        raise ModelError(
            f"{checkpoint.source}: {part.name} holds NaN or infinity: the file is damaged, or"
            " its training diverged"
        )


def _on_device(slab: Array, dtype: type[tw.DType], device: tw.Device) -> tw.Tensor:
    """A slab as a tensor; it is converted where it arrives."""
    given = tw.from_numpy(slab, device=device)
    return given if given.dtype is dtype else given.astype(dtype)


# --- files ----------------------------------------------------------------------------------------


def _files_of(folder: Path) -> list[Path]:
    """The safetensors files of a folder: those of its index, or the single one."""
    if not (folder / INDEX).is_file():
        if (folder / SINGLE).is_file():
            return [folder / SINGLE]
        raise ModelError(f"{folder} has no weights: neither {SINGLE} nor {INDEX}")
    names = sorted(set(_index(folder).values()))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} of {len(names)} shards that {INDEX} names:"
            f" {', '.join(missing[:3])}"
        )
    return [folder / name for name in names]


def _index(folder: Path) -> dict[str, str]:
    """Names of weights with the shard of each."""
    path = folder / INDEX
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(shard) for name, shard in found.items()}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{path} is no index of shards: {error!r}") from None


def _opened(path: Path) -> Any:
    """A mapped file, whose header covers all of its bytes."""
    try:
        return safe_open(path, framework="np")
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} is no whole safetensors file ({error}): its download may have been cut off"
        ) from None


def _check_index(folder: Path, homes: Mapping[str, Any]) -> None:
    """Refuse an index that names a weight which no shard has."""
    if (folder / INDEX).is_file():
        absent = sorted(set(_index(folder)) - set(homes))
        if absent:
            raise ModelError(f"{folder}: {INDEX} names {absent[0]}, and no shard has it")
