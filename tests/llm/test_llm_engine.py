"""The engine: whole answers, pieces, tasks, parameters and refusals."""

import asyncio
import json
import os
import signal
import threading

import numpy as np
import pytest
import tiny_models

from tilewright.llm import LLM, RequestError, SamplingParams
from tilewright.llm.params import read_defaults

PROMPTS = ["abc", "hello", "x"]
SHORT = SamplingParams(max_tokens=6, ignore_eos=True)
DRAWN = SamplingParams(max_tokens=8, temperature=1.0, top_p=0.9, seed=5, ignore_eos=True)


def test_more_prompts_than_slots(llm):
    together = llm.generate(PROMPTS, SHORT)
    alone = [llm.generate(prompt, SHORT)[0] for prompt in PROMPTS]
    assert together == alone
    assert [len(one.tokens) for one in together] == [6, 6, 6]
    assert together[0].finish_reason == "length"


def test_seeds_reproduce_in_every_batch(llm):
    params = [DRAWN.updated(seed=n) for n in range(3)]
    together = [one.tokens for one in llm.generate(PROMPTS, params)]
    alone = [llm.generate(*pair)[0].tokens for pair in zip(PROMPTS, params, strict=True)]
    assert together == alone
    assert len({*llm.generate(["abc"] * 3, params)[0].tokens}) > 1
    mixed = llm.generate(PROMPTS, [params[0], SHORT, params[2]])
    assert mixed[0].tokens == together[0]
    assert mixed[1].tokens == llm.generate("hello", SHORT)[0].tokens


def test_pieces_make_the_answer(llm):
    (whole,) = llm.generate("abc", SHORT)
    chunks = list(llm.stream("abc", SHORT))
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert tuple(token for chunk in chunks for token in chunk.tokens) == whole.tokens
    assert [chunk.finish_reason for chunk in chunks] == [None] * 5 + ["length"]


def test_ids_of_numpy(llm):
    ids = llm.tokenizer.encode("abc")
    given = np.array(ids)
    assert llm.generate(given, SHORT) == llm.generate([ids], SHORT)
    assert [chunk.text for chunk in llm.stream(given, SHORT)]


def test_a_stream_that_is_left(llm):
    stream = llm.stream("abc", SHORT)
    next(stream)
    with pytest.raises(RequestError, match="answering another call"):
        llm.generate("abc", SHORT)
    stream.close()
    assert len(llm.generate("abc", SHORT)[0].tokens) == 6


def answer_forever(llm):
    while True:
        llm.generate(PROMPTS, SHORT.updated(max_tokens=80))


def test_ctrl_c(llm):
    """A real signal in the middle of an answer: the next answer is whole."""
    (wanted,) = llm.generate("abc", SHORT)
    for seconds in (0.02, 0.05):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            answer_forever(llm)
        timer.join()
        assert llm.generate("abc", SHORT) == [wanted]


def test_a_chat(llm):
    messages = [{"role": "user", "content": "hi"}]
    answer = llm.chat(messages, SHORT, enable_thinking=False)
    text = llm.tokenizer.chat(messages, enable_thinking=False)
    assert list(answer.prompt_tokens) == llm.tokenizer.encode(text, is_chat=True)
    pieces = llm.stream(messages, SHORT, enable_thinking=False)
    assert "".join(chunk.text for chunk in pieces) == answer.text


def test_tasks(llm):
    async def main():
        first = llm.agenerate(PROMPTS, SHORT)
        second = llm.achat([{"role": "user", "content": "hi"}], SHORT)
        answers, chat = await asyncio.gather(first, second)
        chunks = [chunk async for chunk in llm.astream("abc", SHORT)]
        return answers, chat, chunks

    answers, chat, chunks = asyncio.run(main())
    assert answers == llm.generate(PROMPTS, SHORT)
    assert chat == llm.chat([{"role": "user", "content": "hi"}], SHORT)
    assert "".join(chunk.text for chunk in chunks) == answers[0].text


class TestEnds:
    def test_a_token(self, llm):
        (answer,) = llm.generate("abc", SHORT)
        third = answer.tokens[2]
        first = answer.tokens.index(third)
        (cut,) = llm.generate("abc", SHORT.updated(stop_token_ids=[third]))
        assert cut.tokens == answer.tokens[: first + 1]
        assert (cut.finish_reason, cut.stop) == ("stop", third)

    def test_a_text(self, llm):
        params = SamplingParams(max_tokens=40, ignore_eos=True, temperature=1.0, seed=2)
        (answer,) = llm.generate("abc", params)
        stop = answer.text[10:12]
        (cut,) = llm.generate("abc", params.updated(stop=stop))
        assert cut.text == answer.text[: answer.text.find(stop)]
        assert (cut.finish_reason, cut.stop) == ("stop", stop)

    def test_the_end_of_the_cache(self, folders):
        model = LLM(str(folders["llama"]), max_length=8)
        (answer,) = model.generate([[1, 2, 3]], SamplingParams(max_tokens=99, ignore_eos=True))
        assert len(answer.tokens) == 5
        assert answer.finish_reason == "length"

    def test_the_end_token(self, folders, tmp_path):
        """Biased to the end token of generation_config.json, the answer ends at once."""
        folder = tiny_models.write_model(tmp_path, "llama")
        config = {"eos_token_id": [257, 256], "do_sample": True, "temperature": 0.6, "top_k": 20}
        (folder / "generation_config.json").write_text(json.dumps(config))
        defaults, ends = read_defaults(folder)
        assert (defaults.temperature, defaults.top_k, ends) == (0.6, 20, (257, 256))
        model = LLM(str(folder), max_length=32)
        biased = SamplingParams(max_tokens=5, logit_bias={257: 1e4})
        (answer,) = model.generate("abc", biased)
        assert (answer.tokens, answer.text, answer.stop) == ((257,), "", 257)
        (long,) = model.generate("abc", biased.updated(ignore_eos=True))
        assert long.tokens == (257,) * 5


def test_penalties(llm):
    free = llm.generate("abc", SamplingParams(max_tokens=12, ignore_eos=True))[0].tokens
    strict = SamplingParams(max_tokens=12, ignore_eos=True, frequency_penalty=1e4)
    found = llm.generate("abc", strict)[0].tokens
    assert len(set(found)) == 12 > len(set(free))
    assert found[0] == free[0]
    repeated = strict.updated(frequency_penalty=0.0, repetition_penalty=1e9)
    assert not set(llm.generate([list(free)], repeated)[0].tokens) & set(free)
    assert llm.generate("abc", SHORT)[0].tokens == free[:6]  # the tables are left behind


def test_logprobs(llm):
    (answer,) = llm.generate("abc", SHORT.updated(logprobs=3, prompt_logprobs=True))
    assert [one.token for one in answer.prompt_logprobs] == list(answer.prompt_tokens[1:])
    for token, one in zip(answer.tokens, answer.logprobs, strict=True):
        best = list(one.top.items())
        assert best[0] == (token, pytest.approx(one.logprob, abs=1e-6))
        assert [log for _, log in best] == sorted((log for _, log in best), reverse=True)
        assert len(best) == 3
    (plain,) = llm.generate("abc", SHORT)
    assert plain.logprobs is plain.prompt_logprobs is None


def test_unknown_tokens_are_never_chosen(llm):
    """The model has embeddings for 263 tokens, and the tokenizer knows 259."""
    params = DRAWN.updated(max_tokens=60, temperature=50.0, top_p=1.0)
    assert max(llm.generate("abc", params)[0].tokens) < 259


@pytest.mark.parametrize(
    ("prompt", "params", "message"),
    [
        ("", SHORT, "prompt 0 has no tokens"),
        ([1, 263], SHORT, "263 is no token of this model, which has 263"),
        ([1], SHORT.updated(logit_bias={-1: 1.0}), "-1 is no token"),
        ([1], SHORT.updated(logit_bias={260: 1.0}), "260 is no token of this model, which has 259"),
        ([1] * 96, SHORT, "prompt 0 has 96 tokens, and prompt and answer together have at most 96"),
        ("abc", [SHORT, SHORT], "1 prompts have 1 parameters, not 2"),
    ],
)
def test_refused(llm, prompt, params, message):
    with pytest.raises(RequestError, match=message):
        llm.generate([prompt], params)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is a whole number, 1 or more, not 0"),
        ({"top_k": -1}, "top_k is a whole number, 0 or more"),
        ({"top_p": 1.5}, "top_p is a number from 0 to 1, not 1.5"),
        ({"top_p": 0}, "top_p and repetition_penalty are above 0"),
        ({"temperature": float("nan")}, "temperature is a number from 0 to inf, not nan"),
        ({"temperature": "hot"}, "temperature is a number"),
        ({"seed": -1}, r"seed is 0 to 2\*\*63 - 1, not -1"),
        ({"logprobs": 257}, "logprobs is at most 256"),
        ({"stop": ["a", ""]}, "a stop text has at least one character"),
    ],
)
def test_refused_parameters(given, message):
    with pytest.raises(RequestError, match=message):
        SamplingParams(**given)
