"""Requests and answers: the state of a sequence in the engine, and the results of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.llm.params import SamplingParams
from tilewright.llm.sampling import Logprobs
from tilewright.llm.stops import StopFilter
from tilewright.llm.tokenizer import Detokenizer, Tokenizer

__all__ = ["Chunk", "Completion", "TextRequest", "TokenLogprobs", "read_logprobs"]

Reason = Literal["stop", "length"]


@dataclass(frozen=True)
class TokenLogprobs:
    """The logarithm of a token's probability, and those of the most probable tokens."""

    token: int
    logprob: float
    top: dict[int, float]  # by token, the most probable first


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer: text that is certain, and the tokens read since the last piece."""

    index: int  # of the prompt
    text: str
    tokens: tuple[int, ...]
    finish_reason: Reason | None = None


@dataclass(frozen=True)
class Completion:
    """A whole answer."""

    prompt_tokens: tuple[int, ...]
    text: str
    tokens: tuple[int, ...]
    finish_reason: Reason
    stop: str | int | None  # the stop text or token that ended it
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] | None = None


@dataclass
class TextRequest:
    """A prompt on its way to an answer."""

    index: int
    prompt: Sequence[int]
    params: SamplingParams
    ends: frozenset[int]  # tokens that end the answer
    room: int  # tokens that the answer may have
    seed: int
    detokenizer: Detokenizer
    filter: StopFilter
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    queued: int = 0  # steps
    reason: Reason | None = None
    stop: str | int | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_scores: list[Logprobs] = field(default_factory=list)

    @classmethod
    def of(
        cls, index: int, prompt: Sequence[int], params: SamplingParams, room: int,
        tokenizer: Tokenizer, ends: Sequence[int], seed: int,
    ) -> TextRequest:  # fmt: skip
        """A request for an answer of at most `room` tokens."""
        own = () if params.ignore_eos else ends
        return cls(
            index, prompt, params, frozenset((*own, *params.stop_token_ids)),
            min(params.max_tokens, room), seed, Detokenizer(tokenizer), StopFilter(params.stops),
        )  # fmt: skip

    @property
    def wants_step(self) -> bool:
        """Whether another step is to be queued."""
        return self.reason is None and self.queued < self.room

    def add(self, token: int) -> Chunk:
        """Take the next token; the answer may end with it."""
        self.tokens.append(token)
        new = ""
        if token in self.ends:
            self.reason, self.stop = "stop", token
        else:
            new = self.filter.add(self.detokenizer.add(token))
            if self.filter.found is None and len(self.tokens) == self.room:
                self.reason = "length"
        if self.reason is not None and self.filter.found is None:
            new += self.filter.add(self.detokenizer.finish())
            new += self.filter.finish()
        if self.filter.found is not None:
            self.reason, self.stop = "stop", self.filter.found
        self.text += new
        return Chunk(self.index, new, (token,), self.reason)

    def completion(self) -> Completion:
        """The whole answer."""
        assert self.reason is not None
        asks, scored = self.params.logprobs is not None, self.params.prompt_logprobs
        return Completion(
            tuple(self.prompt), self.text, tuple(self.tokens), self.reason, self.stop,
            tuple(self.logprobs) if asks else None, self._prompt_logprobs() if scored else None,
        )  # fmt: skip

    def _prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        """Those of every token of the prompt but the first."""
        behind, found = list(self.prompt[1:]), []
        for scores in self.prompt_scores:
            rows = scores.losses.shape[0]
            found += read_logprobs(scores, behind[:rows])
            behind = behind[rows:]
        return tuple(found)


def read_logprobs(scores: Logprobs, tokens: Sequence[int]) -> list[TokenLogprobs]:
    """Logprobs of the tokens of rows, read from the device."""
    losses, log_sums = scores.losses.numpy(), scores.log_sums.numpy()
    best = None if scores.best is None else scores.best.numpy()
    places = None if scores.places is None else scores.places.numpy()

    def top(row: int) -> dict[int, float]:
        if best is None or places is None:
            return {}
        logs: npt.NDArray[Any] = best[row] - np.float32(log_sums[row])
        return dict(zip(places[row].tolist(), logs.tolist(), strict=True))

    return [TokenLogprobs(token, -float(losses[row]), top(row)) for row, token in enumerate(tokens)]
