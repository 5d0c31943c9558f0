"""Exact results: the tokens of transformers, and the same numbers on every way to them."""

import gc
import json

import numpy as np
import pytest
from exact_tokens_file import REFERENCES

import tilewright as tw
from tilewright.llm import LLM, SamplingParams

MODELS = json.loads(REFERENCES.read_text(encoding="utf-8"))["models"]


@pytest.mark.parametrize("name", list(MODELS))
def test_the_tokens_of_transformers(folders, name):
    """Answers that transformers gave, whose versions the file names, and the last logits."""
    model = LLM(str(folders[name]), max_length=64)
    for case in MODELS[name]:
        params = SamplingParams(max_tokens=len(case["tokens"]), ignore_eos=True)
        (found,) = model.generate([case["prompt"]], params)
        assert list(found.tokens) == case["tokens"]
        logits = model.runner.logits().numpy()[0, :16]
        np.testing.assert_allclose(logits, case["last_logits"], atol=1e-4)


def test_prefill_in_chunks(folders, monkeypatch):
    prompt = np.random.default_rng(0).integers(0, 256, 50).tolist()
    params = SamplingParams(max_tokens=5, ignore_eos=True, prompt_logprobs=True)
    (whole,) = LLM(str(folders["moe"]), max_length=64).generate([prompt], params)
    monkeypatch.setattr("tilewright.llm.runner.CHUNK", 7)
    (chunks,) = LLM(str(folders["moe"]), max_length=64).generate([prompt], params)
    assert whole.tokens == chunks.tokens
    assert len(whole.prompt_logprobs) == 49
    pairs = zip(whole.prompt_logprobs, chunks.prompt_logprobs, strict=True)
    assert max(abs(one.logprob - other.logprob) for one, other in pairs) < 1e-4


def test_decoding_agrees_with_prefill(llm):
    """The logprobs of an answer, token by token, are those of the same tokens as a prompt."""
    params = SamplingParams(max_tokens=12, ignore_eos=True, logprobs=0)
    (answer,) = llm.generate(["abc"], params)
    ids = [*answer.prompt_tokens, *answer.tokens]
    (scored,) = llm.generate([ids], SamplingParams(max_tokens=1, prompt_logprobs=True))
    behind = scored.prompt_logprobs[-12:]
    for one, other in zip(answer.logprobs, behind, strict=True):
        assert one.token == other.token
        assert abs(one.logprob - other.logprob) < 1e-5


def test_nothing_is_left_behind(folders):
    pool = tw.Pool(tw.Device("cpu"))
    with tw.pool(pool):
        model = LLM(str(folders["llama"]), max_length=32)
        model.generate(["abc"], SamplingParams(max_tokens=3))
        del model
        gc.collect()
    tw.synchronize()  # memory is freed behind its last use
    assert pool.statistics().used == 0
