"""Tiny models with random weights, of odd sizes, as folders that every library can load.

Weights come from NumPy's generator, so a model is the same on every machine. The tokenizer knows
the 256 bytes and three special tokens; the model has a few embeddings more.
"""

import json
from pathlib import Path

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import decoders, models, pre_tokenizers

from tilewright.llm.config import ModelConfig
from tilewright.llm.weights import declared_weights

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)
COMMON = {
    "vocab_size": 263, "num_hidden_layers": 2, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "eos_token_id": 258,
}  # fmt: skip
# `config.json` of models by name, in the form of the first generation of the file or the second.
CONFIGS = {
    "qwen3": {
        **COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 40,
        "intermediate_size": 88, "num_attention_heads": 6, "num_key_value_heads": 2,
        "head_dim": 12, "rope_theta": 1e6, "torch_dtype": "float32", "tie_word_embeddings": False,
    },
    "llama": {
        **COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 36,
        "intermediate_size": 52, "num_attention_heads": 3, "num_key_value_heads": 3,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
        "dtype": "float32", "tie_word_embeddings": True,
    },
    "moe": {
        **COMMON, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "hidden_size": 32, "intermediate_size": 44, "moe_intermediate_size": 20,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "num_experts": 7,
        "num_experts_per_tok": 3, "norm_topk_prob": True, "mlp_only_layers": [0],
        "decoder_sparse_step": 1, "rope_theta": 1e4, "torch_dtype": "float32",
        "tie_word_embeddings": False,
    },
}  # fmt: skip


def random_weights(config, seed=0):
    """Weights by the names of a checkpoint; every layer passes on about as much as it gets."""
    random, found = np.random.default_rng(seed), {}
    for one in declared_weights(ModelConfig.from_dict(config)):
        for part in one.parts:
            values = random.standard_normal(part.shape)
            scaled = values / np.sqrt(part.shape[-1]) if len(part.shape) > 1 else 1 + values / 10
            found[part.name] = scaled.astype(np.float32)
    return found


def tokenizer():
    """Bytes, and special tokens."""
    vocabulary = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    return inner


def write_model(folder: Path, name="qwen3", *, seed=0, weights=None, shards=1, **changes) -> Path:
    """A folder with a model, its tokenizer and template; `changes` are fields of its config."""
    config = {**CONFIGS[name], **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    weights = random_weights(config, seed) if weights is None else weights
    if shards == 1:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return folder
    homes = {}
    for number in range(shards):
        shard = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        some = dict(list(weights.items())[number::shards])
        save_file(some, folder / shard, {"format": "pt"})
        homes |= dict.fromkeys(some, shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": homes}))
    return folder
