"""The engine: prompts in, answers out, in whole or in pieces.

One generator, `_serve`, keeps the slots of a runner busy. It queues the next step before it asks
for the tokens of the last one, and yields either a tensor that it must wait for or a piece of an
answer; callers that block and callers that await differ in how they wait, and in nothing else.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, closing, contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import tilewright as tw
from tilewright.llm.answers import Chunk, Completion, TextRequest, read_logprobs
from tilewright.llm.errors import RequestError
from tilewright.llm.loading import Loaded, LoadOptions, load_model
from tilewright.llm.params import SamplingParams
from tilewright.llm.runner import Runner
from tilewright.llm.sampling import Kind, Logprobs, kind_of
from tilewright.llm.tokenizer import Message

__all__ = ["LLM"]

Prompt = str | Sequence[int]
Params = SamplingParams | Sequence[SamplingParams] | None
IN_FLIGHT = 2  # steps that are queued before the oldest is read


class _StepInFlight(NamedTuple):
    """A queued step: its tokens, and the requests in its slots."""

    tokens: tw.Tensor
    requests: dict[int, TextRequest]
    logprobs: Logprobs | None


class LLM:
    """A language model.

    `path` is a folder with config.json, tokenizer.json and safetensors, a GGUF file, or the name
    of a model in the local cache of Hugging Face. Options are those of `LoadOptions`: `device`,
    `dtype`, `max_length`, `slots`, `progress`.
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        loaded = load_model(path, LoadOptions(**options))
        self._begin(loaded)

    def _begin(self, loaded: Loaded) -> None:
        self.config, self.tokenizer = loaded.config, loaded.tokenizer
        self.defaults, self.eos_ids = loaded.defaults, loaded.eos_ids
        self.max_length = loaded.model.length
        known = min(loaded.tokenizer.size, loaded.config.vocabulary)
        self.runner = Runner(loaded.model, known)
        self._busy, self._turn = threading.Lock(), asyncio.Lock()

    # --- whole answers ----------------------------------------------------------------------------

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: Params = None
    ) -> list[Completion]:
        """An answer for each prompt, a text or a list of ids; `params` are one or one for each.

        Without `params` those of the model's generation_config.json count.
        """
        requests = self._requests(prompts, params)
        with closing(self._pieces(requests)) as pieces:
            for _ in pieces:
                pass
        return [request.completion() for request in requests]

    async def agenerate(
        self, prompts: Prompt | Sequence[Prompt], params: Params = None
    ) -> list[Completion]:
        """`generate` without blocking the event loop; calls of several tasks take turns."""
        requests = self._requests(prompts, params)
        async with aclosing(self._awaited(requests)) as pieces:
            async for _ in pieces:
                pass
        return [request.completion() for request in requests]

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None,
        tools: Sequence[Any] | None = None, **options: Any,
    ) -> Completion:  # fmt: skip
        """The answer to a conversation; options such as `enable_thinking` go to the template."""
        return self.generate([self.chat_ids(messages, tools, **options)], params)[0]

    async def achat(
        self, messages: Sequence[Message], params: SamplingParams | None = None,
        tools: Sequence[Any] | None = None, **options: Any,
    ) -> Completion:  # fmt: skip
        """`chat` without blocking the event loop."""
        found = await self.agenerate([self.chat_ids(messages, tools, **options)], params)
        return found[0]

    def chat_ids(
        self, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any
    ) -> list[int]:
        """A conversation as the ids of a prompt."""
        return self.tokenizer.encode(self.tokenizer.chat(messages, tools, **options), is_chat=True)

    # --- answers in pieces ------------------------------------------------------------------------

    def stream(
        self, prompt: Prompt | Sequence[Message], params: SamplingParams | None = None,
        tools: Sequence[Any] | None = None, **options: Any,
    ) -> Iterator[Chunk]:  # fmt: skip
        """The pieces of the answer to a prompt or a conversation, each as soon as it is there."""
        return self._pieces(self._requests(self._one(prompt, tools, options), params))

    def astream(
        self, prompt: Prompt | Sequence[Message], params: SamplingParams | None = None,
        tools: Sequence[Any] | None = None, **options: Any,
    ) -> AsyncIterator[Chunk]:  # fmt: skip
        """`stream` without blocking the event loop."""
        return self._awaited(self._requests(self._one(prompt, tools, options), params))

    def _one(self, given: Any, tools: Sequence[Any] | None, options: dict[str, Any]) -> list[Any]:
        """A prompt or a conversation as a list of one prompt."""
        if isinstance(given, str) or all(isinstance(one, Integral) for one in given):
            return [given]
        return [self.chat_ids(list(given), tools, **options)]

    def _pieces(self, requests: list[TextRequest]) -> Generator[Chunk, None, None]:
        with self._alone(), closing(self._serve(requests)) as served:
            for item in served:
                if isinstance(item, Chunk):
                    yield item
                else:
                    item.wait()

    async def _awaited(self, requests: list[TextRequest]) -> AsyncGenerator[Chunk, None]:
        async with self._turn:
            with self._alone(), closing(self._serve(requests)) as served:
                for item in served:
                    if isinstance(item, Chunk):
                        yield item
                    else:
                        await item

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The slots for one call at a time; a call that fails leaves them as new."""
        if not self._busy.acquire(blocking=False):
            raise RequestError(
                "this model is answering another call: read its stream to the end or close it first"
            )
        try:
            yield
        except GeneratorExit:  # a stream that is closed before its end
            raise
        except BaseException:
            self.runner.reset()
            raise
        finally:
            self._busy.release()

    # --- requests ---------------------------------------------------------------------------------

    def _requests(self, prompts: Prompt | Sequence[Prompt], params: Params) -> list[TextRequest]:
        """Checked requests; nothing runs before all of them are."""
        is_single = isinstance(prompts, str) or isinstance(next(iter(prompts), None), Integral)
        every: list[Any] = [prompts] if is_single else list(prompts)
        each = self._params_of(params, len(every))
        return [self._request(n, *pair) for n, pair in enumerate(zip(every, each, strict=True))]

    def _params_of(self, params: Params, count: int) -> list[SamplingParams]:
        if params is None or isinstance(params, SamplingParams):
            return [self.defaults if params is None else params] * count
        if len(params) != count:
            raise RequestError(f"{count} prompts have {count} parameters, not {len(params)}")
        return list(params)

    def _request(self, index: int, prompt: Prompt, params: SamplingParams) -> TextRequest:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(map(int, prompt))
        if not ids:
            raise RequestError(f"prompt {index} has no tokens")
        self._check_tokens(ids, self.config.vocabulary)
        self._check_tokens(params.logit_bias, self.runner.known)
        if len(ids) >= self.max_length:
            raise RequestError(
                f"prompt {index} has {len(ids)} tokens, and prompt and answer together have at most"
                f" {self.max_length}: shorten it, or load the model with a larger max_length"
            )
        seed = random.getrandbits(62) if params.seed is None else params.seed
        room = self.max_length - len(ids)
        return TextRequest.of(index, ids, params, room, self.tokenizer, self.eos_ids, seed)

    @staticmethod
    def _check_tokens(tokens: Iterable[int], limit: int) -> None:
        wrong = [token for token in tokens if not 0 <= token < limit]
        if wrong:
            raise RequestError(f"{wrong[0]} is no token of this model, which has {limit}")

    # --- the loop ---------------------------------------------------------------------------------

    def _serve(self, requests: list[TextRequest]) -> Generator[tw.Tensor | Chunk, None, None]:
        """Answer requests in order, as many at a time as there are slots."""
        waiting, active = deque(requests), dict[int, TextRequest]()
        steps: deque[_StepInFlight] = deque()
        try:
            while waiting or steps or active:
                self._admit(waiting, active)
                if any(request.wants_step for request in active.values()):
                    steps.append(self._queued(active))
                if len(steps) >= IN_FLIGHT or not _wants_step(active):
                    step = steps.popleft()
                    yield step.tokens
                    yield from self._delivered(step, active)
        finally:
            for slot in active:
                self.runner.release(slot)

    def _admit(self, waiting: deque[TextRequest], active: dict[int, TextRequest]) -> None:
        for slot in range(self.runner.model.slots):
            if waiting and slot not in active:
                request = active[slot] = waiting.popleft()
                scores = self.runner.admit(slot, request.prompt, request.params, request.seed)
                request.prompt_scores = scores

    def _queued(self, active: dict[int, TextRequest]) -> _StepInFlight:
        """Queue the next step of the requests that want one."""
        here = {slot: request for slot, request in active.items() if request.wants_step}
        kind = max((kind_of(request.params) for request in here.values()), default=Kind.GREEDY)
        tokens = self.runner.step(kind)
        for request in here.values():
            request.queued += 1
        asked = [one.params.logprobs for one in here.values() if one.params.logprobs is not None]
        scores = self.runner.logprobs(tokens, max(asked)) if asked else None
        return _StepInFlight(tokens, here, scores)

    def _delivered(self, step: _StepInFlight, active: dict[int, TextRequest]) -> Iterator[Chunk]:
        """Give the tokens of a step that is done to its requests."""
        tokens = step.tokens.numpy().tolist()
        scores = None if step.logprobs is None else read_logprobs(step.logprobs, tokens)
        for slot, request in step.requests.items():
            if request.reason is not None:
                continue  # it ended before this step, which was queued ahead
            if scores is not None and request.params.logprobs is not None:
                request.logprobs.append(scores[slot])
            yield request.add(tokens[slot])
            if request.reason is not None:
                del active[slot]
                self.runner.release(slot)


def _wants_step(active: dict[int, TextRequest]) -> bool:
    """Whether any request is to have another step queued."""
    return any(request.wants_step for request in active.values())
