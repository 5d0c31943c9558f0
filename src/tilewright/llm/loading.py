"""Loading: from a path to a model on a device, with its tokenizer and default parameters.

Everything that can be refused is refused before weights are read: files, architecture, tokenizer,
lengths, and the memory that weights and caches need.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import huggingface_hub
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

import tilewright as tw
from tilewright import f32, u8
from tilewright.llm.checkpoint import Checkpoint, Progress, SafetensorsCheckpoint, load_weights
from tilewright.llm.config import ModelConfig
from tilewright.llm.errors import ModelError
from tilewright.llm.gguf_files import GgufCheckpoint
from tilewright.llm.model import Model
from tilewright.llm.params import SamplingParams, read_defaults
from tilewright.llm.tokenizer import Tokenizer

__all__ = ["LoadOptions", "Loaded", "find_model", "load_model"]

DEFAULT_LENGTH = 4096


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded.

    `dtype` is that of the checkpoint on a GPU, and f32 on a CPU, unless given. `max_length` is the
    most tokens of a prompt with its answer: by default 4096, or the model's own limit if lower.
    `slots` is the number of sequences that are answered at a time. `progress` is called with the
    bytes loaded so far and in all.
    """

    device: tw.Device | str | None = None
    dtype: type[tw.DType] | None = None
    max_length: int | None = None
    slots: int = 1
    progress: Progress | None = None


class Loaded(NamedTuple):
    """A model that is ready."""

    config: ModelConfig
    tokenizer: Tokenizer
    defaults: SamplingParams
    eos_ids: tuple[int, ...]
    model: Model


class _Files(NamedTuple):
    """The parts of a model, without its weights in memory."""

    config: ModelConfig
    tokenizer: Tokenizer
    defaults: SamplingParams
    eos_ids: tuple[int, ...]
    checkpoint: Checkpoint


def load_model(path: str | Path, options: LoadOptions) -> Loaded:
    """The model at a path, on its device."""
    files = _opened(find_model(path))
    config = files.config
    files.tokenizer.check_fits(config.vocabulary)
    length = _length(config, options.max_length)
    if options.slots < 1:
        raise ModelError(f"slots is a positive number, not {options.slots}")
    device = tw.empty((0,), f32, device=options.device).device
    dtype = options.dtype or (f32 if device.kind == "cpu" else config.dtype)
    _check_room(config, dtype, device, options.slots * length)
    weights = load_weights(files.checkpoint, config, dtype, device, options.progress)
    model = Model(config, weights, options.slots, length)
    return Loaded(config, files.tokenizer, files.defaults, files.eos_ids, model)


def find_model(path: str | Path) -> Path:
    """The folder or file of a model: a path, or a name in the local cache of Hugging Face."""
    place = Path(path).expanduser()
    if place.exists():
        return place
    try:
        return Path(huggingface_hub.snapshot_download(str(path), local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError, ValueError):
        raise ModelError(
            f"{path} is neither a path nor the name of a model in the local cache of Hugging Face:"
            " nothing is downloaded here"
        ) from None


def _opened(place: Path) -> _Files:
    if place.is_file():
        file = GgufCheckpoint(place)
        return _Files(file.config(), file.tokenizer(), SamplingParams(), file.eos_ids(), file)
    config = ModelConfig.from_folder(place)
    tokenizer = Tokenizer.from_folder(place)
    defaults, ends = read_defaults(place)
    checkpoint = SafetensorsCheckpoint(place)
    return _Files(config, tokenizer, defaults, ends or config.eos_ids, checkpoint)


def _length(config: ModelConfig, wanted: int | None) -> int:
    if wanted is None:
        return min(DEFAULT_LENGTH, config.max_length)
    if not 2 <= wanted <= config.max_length:
        raise ModelError(f"max_length is 2 to {config.max_length} for this model, not {wanted}")
    return wanted


def _check_room(
    config: ModelConfig, dtype: type[tw.DType], device: tw.Device, positions: int
) -> None:
    """Refuse a model whose weights and caches do not fit, by taking all of their bytes once."""
    itemsize = tw.empty((1,), dtype, device=device).itemsize
    weights = config.parameters * itemsize
    caches = 2 * config.layers * config.kv_heads * config.head_dim * positions * itemsize
    try:
        room = tw.empty((weights + caches,), u8, device=device)
        tw.fill(room[:1], 0).sync()
    except tw.OutOfMemoryError as error:
        raise ModelError(
            f"the model needs {weights / 2**30:.1f} GiB for weights and {caches / 2**30:.1f} GiB"
            f" for the caches of {positions} positions on {device.name}: {error}"
        ) from None
