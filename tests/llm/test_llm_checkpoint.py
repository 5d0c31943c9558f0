"""Checkpoints: files of every form give the same weights, and damaged ones a clear refusal."""

import ml_dtypes
import numpy as np
import pytest
import tiny_models

import tilewright as tw
from tilewright import bf16, f32
from tilewright.llm import LLM, ModelError
from tilewright.llm import checkpoint as module
from tilewright.llm.checkpoint import SafetensorsCheckpoint, load_weights
from tilewright.llm.config import ModelConfig

CPU = tw.Device("cpu")


def loaded(folder, dtype=f32, progress=None):
    config = ModelConfig.from_folder(folder)
    return load_weights(SafetensorsCheckpoint(folder), config, dtype, CPU, progress)


def test_fused(folders):
    raw = tiny_models.random_weights(tiny_models.CONFIGS["qwen3"])
    layer = loaded(folders["qwen3"]).layers[1]
    inside = "model.layers.1.self_attn"
    parts = [raw[f"{inside}.{name}_proj.weight"] for name in "qkv"]
    assert (layer.qkv.numpy() == np.concatenate(parts)).all()
    both = [raw[f"model.layers.1.mlp.{name}_proj.weight"] for name in ("gate", "up")]
    assert (layer.gate_up.numpy() == np.concatenate(both)).all()
    assert layer.mixture is None


def test_experts(folders):
    raw = tiny_models.random_weights(tiny_models.CONFIGS["moe"])
    dense, sparse = loaded(folders["moe"]).layers
    assert dense.mixture is None
    assert sparse.down is None
    inside = "model.layers.1.mlp.experts.3"
    both = [raw[f"{inside}.{name}_proj.weight"] for name in ("gate", "up")]
    assert (sparse.mixture.gate_up.numpy()[3] == np.concatenate(both)).all()
    assert (sparse.mixture.down.numpy()[3] == raw[f"{inside}.down_proj.weight"]).all()


def test_shards_and_slabs(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SLAB", 1000)
    whole = loaded(folders["qwen3"])
    parts = loaded(tiny_models.write_model(tmp_path, "qwen3", shards=3))
    assert (whole.layers[0].qkv.numpy() == parts.layers[0].qkv.numpy()).all()
    assert (whole.head.numpy() == parts.head.numpy()).all()


def test_a_tied_head_is_not_read(tmp_path):
    raw = tiny_models.random_weights(tiny_models.CONFIGS["llama"])
    raw["lm_head.weight"] = np.full((263, 36), np.nan, np.float32)
    weights = loaded(tiny_models.write_model(tmp_path, "llama", weights=raw))
    assert weights.head is weights.embedding


@pytest.mark.parametrize("stored", [np.float16, ml_dtypes.bfloat16])
def test_dtypes_are_converted(tmp_path, stored):
    raw = tiny_models.random_weights(tiny_models.CONFIGS["qwen3"])
    raw = {name: one.astype(stored) for name, one in raw.items()}
    folder = tiny_models.write_model(tmp_path, "qwen3", weights=raw)
    table = raw["model.embed_tokens.weight"]
    assert (loaded(folder).embedding.numpy() == table.astype(np.float32)).all()
    assert loaded(folder, bf16).embedding.dtype is bf16


def test_progress(folders):
    seen = []
    loaded(folders["qwen3"], progress=lambda done, total: seen.append((done, total)))
    config = ModelConfig.from_folder(folders["qwen3"])
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (4 * config.parameters, 4 * config.parameters)


class TestDamaged:
    def test_no_weights(self, folders, tmp_path):
        folder = tiny_models.write_model(tmp_path, "qwen3")
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelError, match=r"has no weights: neither model\.safetensors nor"):
            loaded(folder)

    def test_a_missing_shard(self, tmp_path):
        folder = tiny_models.write_model(tmp_path, "qwen3", shards=3)
        (folder / "model-00002-of-00003.safetensors").unlink()
        with pytest.raises(ModelError, match=r"lacks 1 of 3 shards .* model-00002-of-00003"):
            loaded(folder)

    def test_a_truncated_file(self, tmp_path):
        path = tiny_models.write_model(tmp_path, "qwen3") / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ModelError, match=r"is no whole safetensors file .* cut off"):
            loaded(tmp_path)

    def test_an_index_that_is_none(self, tmp_path):
        tiny_models.write_model(tmp_path, "qwen3", shards=2)
        (tmp_path / "model.safetensors.index.json").write_text("{}")
        with pytest.raises(ModelError, match="is no index of shards"):
            loaded(tmp_path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda raw: raw.pop("model.norm.weight"), r"lacks the weight model\.norm\.weight"),
            (
                lambda raw: raw.update({"model.norm.weight": np.ones(41, np.float32)}),
                r"model\.norm\.weight has the shape \(41,\), and config\.json asks for \(40,\)",
            ),
            (
                lambda raw: raw.update({"model.norm.weight": np.ones(40, np.int32)}),
                r"model\.norm\.weight is I32, and weights are one of F32, F16, BF16",
            ),
            (
                lambda raw: raw["model.norm.weight"].__setitem__(7, np.nan),
                r"model\.norm\.weight holds NaN or infinity",
            ),
        ],
    )
    def test_a_wrong_weight(self, tmp_path, change, message):
        raw = tiny_models.random_weights(tiny_models.CONFIGS["qwen3"])
        change(raw)
        folder = tiny_models.write_model(tmp_path, "qwen3", weights=raw)
        with pytest.raises(ModelError, match=message):
            loaded(folder)


class TestLoading:
    def test_no_such_model(self, tmp_path):
        with pytest.raises(ModelError, match="neither a path nor the name of a model"):
            LLM(str(tmp_path / "nowhere"))
        with pytest.raises(ModelError, match="nothing is downloaded"):
            LLM("some-organisation/some-model-that-is-not-cached")

    def test_a_tokenizer_of_another_model(self, tmp_path):
        folder = tiny_models.write_model(tmp_path, "qwen3", vocab_size=200)
        with pytest.raises(ModelError, match="ids up to 258, and the model has embeddings for 200"):
            LLM(str(folder))

    def test_no_tokenizer(self, tmp_path):
        path = tiny_models.write_model(tmp_path, "qwen3") / "tokenizer.json"
        path.write_text("{}")
        with pytest.raises(ModelError, match=r"tokenizer\.json is no tokenizer"):
            LLM(str(tmp_path))
        path.unlink()
        with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
            LLM(str(tmp_path))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_length": 513}, "max_length is 2 to 512 for this model, not 513"),
            ({"slots": 0}, "slots is a positive number"),
        ],
    )
    def test_options(self, folders, options, message):
        with pytest.raises(ModelError, match=message):
            LLM(str(folders["qwen3"]), **options)

    def test_memory(self, folders):
        pool = tw.Pool(CPU, limit=1 << 16)
        with tw.pool(pool), pytest.raises(ModelError, match=r"needs 0\.0 GiB for weights and"):
            LLM(str(folders["qwen3"]), device="cpu")
        assert pool.statistics().used == 0

    def test_a_gguf_file_that_is_none(self, tmp_path):
        path = tmp_path / "model.gguf"
        path.write_bytes(b"GGUF")
        with pytest.raises(ModelError, match="is no whole GGUF file"):
            LLM(str(path))
