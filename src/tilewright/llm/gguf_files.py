"""GGUF files: a model, its tokenizer and its template in one file, read by the `gguf` package.

Quantised weights become f32 as they are read. Files of Llama order the channels of queries and keys
in neighbouring pairs; rows are brought back to the order of the two halves. Tokenizers are
byte-level BPE, with the splitting of text that `tokenizer.ggml.pre` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import tilewright as tw
from tilewright import f32
from tilewright.llm.config import ModelConfig
from tilewright.llm.errors import ModelError
from tilewright.llm.tokenizer import Tokenizer

__all__ = ["GgufCheckpoint"]

Array = npt.NDArray[Any]

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
# Names of weights outside of layers, and inside of each.
OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
PAIRED = (".q_proj.weight", ".k_proj.weight")  # weights with channels in pairs, in Llama files
CONTROL = 3  # the type of a token that is no text
# How a text is split before merges, by `tokenizer.ggml.pre`.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SMOLLM, GPT2 = "smollm", "gpt-2"


class GgufCheckpoint:
    """A GGUF file as a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        try:
            self._file = gguf.GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise ModelError(f"{path} is no whole GGUF file: {error}") from None
        self._tensors = {self._name(one.name): one for one in self._file.tensors}

    def _field(self, name: str, default: Any = None) -> Any:
        field = self._file.get_field(name)
        return default if field is None else field.contents()

    @cached_property
    def _kind(self) -> str:
        return str(self._field("general.architecture"))

    def _number(self, name: str, default: Any = None) -> Any:
        return self._field(f"{self._kind}.{name}", default)

    @staticmethod
    def _name(name: str) -> str:
        """The name of a weight in safetensors files."""
        parts = name.removesuffix(".weight").split(".")
        if parts[0] == "blk" and len(parts) == 3:
            return f"model.layers.{parts[1]}.{INNER.get(parts[2], parts[2])}.weight"
        return f"{OUTER.get(parts[0], parts[0])}.weight"

    def config(self) -> ModelConfig:
        """The numbers of the model."""
        heads = self._number("attention.head_count")
        raw = {
            "architectures": [ARCHITECTURES.get(self._kind, self._kind)],
            "vocab_size": len(self._field("tokenizer.ggml.tokens", ())),
            "hidden_size": self._number("embedding_length"),
            "intermediate_size": self._number("feed_forward_length"),
            "num_hidden_layers": self._number("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self._number("attention.head_count_kv", heads),
            "head_dim": self._number("attention.key_length"),
            "max_position_embeddings": self._number("context_length"),
            "rms_norm_eps": self._number("attention.layer_norm_rms_epsilon"),
            "rope_theta": self._number("rope.freq_base", 10_000.0),
            "tie_word_embeddings": "lm_head.weight" not in self._tensors,
        }
        return ModelConfig.from_dict(raw, self.source)

    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end an answer."""
        found = self._field("tokenizer.ggml.eos_token_id")
        return () if found is None else (int(found),)

    def shapes(self) -> Mapping[str, tuple[tuple[int, ...], type[tw.DType]]]:
        """Shape and dtype of every weight; axes are listed from the last to the first."""
        return {
            name: (tuple(map(int, reversed(one.shape))), f32) for name, one in self._tensors.items()
        }

    def read(self, name: str, begin: int, end: int) -> Array:
        """Rows `begin` to `end` of a weight, in f32."""
        one = self._tensors[name]
        if self._kind == "llama" and name.endswith(PAIRED):
            return self._halves(name, one)[begin:end]
        return np.asarray(gguf.dequantize(one.data[begin:end], one.tensor_type), np.float32)

    def _halves(self, name: str, one: Any) -> Array:
        """Rows of queries or keys with pairs of channels as two halves."""
        rows = np.asarray(gguf.dequantize(one.data, one.tensor_type), np.float32)
        is_query = name.endswith(PAIRED[0])
        heads = self._number("attention.head_count" if is_query else "attention.head_count_kv")
        pairs = rows.reshape(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer and template of the file."""
        kind, split = self._field("tokenizer.ggml.model"), self._field("tokenizer.ggml.pre")
        if kind != "gpt2" or split not in SPLITS:
            known = ", ".join(SPLITS)
            raise ModelError(
                f"{self.source}: the tokenizer {kind}, split as {split}, is unknown; known is gpt2,"
                f" split as one of {known}"
            )
        tokens = self._field("tokenizer.ggml.tokens")
        merges = [tuple(pair.split(" ", 1)) for pair in self._field("tokenizer.ggml.merges")]
        numbers = {token: number for number, token in enumerate(tokens)}
        inner = tokenizers.Tokenizer(models.BPE(vocab=numbers, merges=merges))
        inner.pre_tokenizer = SPLITS[split]
        inner.decoder = decoders.ByteLevel()
        types = self._field("tokenizer.ggml.token_type", ())
        control = [token for token, type_ in zip(tokens, types, strict=True) if type_ == CONTROL]
        inner.add_special_tokens(control)
        return Tokenizer(inner, self._field("tokenizer.chat_template"), self._special(tokens))

    def _special(self, tokens: list[str]) -> dict[str, str]:
        names = {"bos_token": "bos_token_id", "eos_token": "eos_token_id"}
        found = {name: self._field(f"tokenizer.ggml.{key}") for name, key in names.items()}
        return {name: tokens[number] for name, number in found.items() if number is not None}


def _byte_level(*, splits: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splits)


SPLITS: dict[str, Any] = {
    GPT2: _byte_level(splits=True),
    SMOLLM: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), _byte_level(splits=True)]
    ),
    "qwen2": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2), behavior="isolated"),
            _byte_level(splits=False),
        ]
    ),
}
