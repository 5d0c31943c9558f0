"""`config.json` of both generations, and its refusals."""

import json

import numpy as np
import pytest
import tiny_models

from tilewright import bf16, f32
from tilewright.llm import ModelError
from tilewright.llm.config import ModelConfig, RopeConfig
from tilewright.llm.rotary import frequencies, rotary_tables

QWEN3 = tiny_models.CONFIGS["qwen3"]


def test_both_generations_agree():
    second = {**QWEN3, "dtype": "bfloat16"}
    second["rope_parameters"] = {"rope_type": "default", "rope_theta": second.pop("rope_theta")}
    del second["torch_dtype"]
    first = ModelConfig.from_dict({**QWEN3, "torch_dtype": "bfloat16"})
    assert first == ModelConfig.from_dict(second)
    assert first.dtype is bf16
    assert first.rope == RopeConfig(1e6)


def test_the_published_sizes():
    """The parameters of Qwen3-0.6B and 30B-A3B, from the numbers of their config.json."""
    shared = {"head_dim": 128, "vocab_size": 151936, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
              "max_position_embeddings": 40960, "torch_dtype": "bfloat16"}  # fmt: skip
    small = {
        **shared, "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024,
        "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "tie_word_embeddings": True,
    }  # fmt: skip
    assert ModelConfig.from_dict(small).parameters == 596_049_920
    sparse = {
        **shared, "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048,
        "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768, "tie_word_embeddings": False,
    }  # fmt: skip
    assert ModelConfig.from_dict(sparse).parameters == 30_532_122_624


def test_head_dim_defaults_to_its_share():
    config = ModelConfig.from_dict(tiny_models.CONFIGS["llama"])
    assert (config.head_dim, config.has_qk_norm, config.is_tied) == (12, False, True)
    assert config.dtype is f32
    assert config.rope.type == "llama3"


def test_layers_with_experts():
    moe = tiny_models.CONFIGS["moe"]
    assert ModelConfig.from_dict(moe).sparse_layers == {1}
    every_other = {**moe, "mlp_only_layers": [], "decoder_sparse_step": 2, "num_hidden_layers": 5}
    assert ModelConfig.from_dict(every_other).sparse_layers == {1, 3}
    renamed = {**moe, "num_local_experts": 7}
    del renamed["num_experts"]
    assert ModelConfig.from_dict(renamed) == ModelConfig.from_dict(moe)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GptOssForCausalLM"]}, "GptOssForCausalLM is unknown; known are Qwen3"),
        ({"architectures": None}, r"architecture \(none\) is unknown"),
        ({"hidden_size": "big"}, "hidden_size is a number, not 'big'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is a positive whole number, not 0"),
        ({"num_attention_heads": 5}, "num_attention_heads 5 is no multiple of 2 key heads"),
        ({"head_dim": 13}, "head_dim 13 is no even number up to 256"),
        ({"attention_bias": True}, "attention_bias is set"),
        ({"use_sliding_window": True}, "use_sliding_window is set"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is unknown"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type 'yarn' is unknown"),
        ({"torch_dtype": "int8"}, "dtype 'int8' is unknown"),
        ({"quantization_config": {"bits": 4}}, "weights are quantised"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(ModelError, match=rf"config\.json: .*{message}"):
        ModelConfig.from_dict({**QWEN3, **changes})


def test_files(tmp_path):
    with pytest.raises(ModelError, match=r"has no config\.json"):
        ModelConfig.from_folder(tmp_path)
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(ModelError, match=r"config\.json cannot be read as JSON"):
        ModelConfig.from_folder(tmp_path)
    path.write_text("[]")
    with pytest.raises(ModelError, match="holds a JSON list"):
        ModelConfig.from_folder(tmp_path)
    path.write_text(json.dumps(QWEN3))
    assert ModelConfig.from_folder(tmp_path).layers == 2


def test_angles():
    cosines, sines = rotary_tables(RopeConfig(100.0), 4, 3)
    np.testing.assert_allclose(cosines[2], np.cos([2.0, 0.2]), rtol=1e-6)
    np.testing.assert_allclose(sines[2], np.sin([2.0, 0.2]), rtol=1e-6)
    linear = frequencies(RopeConfig(100.0, "linear", factor=2.0), 4)
    np.testing.assert_allclose(linear, [0.5, 0.05], rtol=1e-6)
    long = RopeConfig(1e6, "llama3", factor=4.0, original_length=64)
    plain, scaled = frequencies(RopeConfig(1e6), 32), frequencies(long, 32)
    assert scaled[0] == plain[0]  # many turns over the original length
    np.testing.assert_allclose(scaled[-1], plain[-1] / 4, rtol=1e-6)
    assert (np.diff(scaled) < 0).all()
