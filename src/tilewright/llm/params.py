"""Parameters of a request: how tokens are chosen, and where an answer ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.llm.config import as_ids, read_json
from tilewright.llm.errors import RequestError

__all__ = ["SamplingParams", "read_defaults"]

MOST_SEEDS = 1 << 63
MOST_LOGPROBS = 256  # as many as `kernels.top_k` finds


@dataclass(frozen=True)
class SamplingParams:
    """Parameters of a request; by default the most probable token is taken at each step.

    `temperature` 0 takes the highest logit. `top_k` (0: all), `top_p` and `min_p` restrict the
    choice. `repetition_penalty` divides the logits of tokens that have occurred in the prompt or
    the answer, `presence_penalty` and `frequency_penalty` lower those of the answer, and
    `logit_bias` adds to the logits of ids. With a `seed`, an answer is the same in every batch and
    at every run.

    An answer ends with a `stop` text (not part of it), with one of `stop_token_ids`, with the end
    token of the model unless `ignore_eos`, or after `max_tokens`. `logprobs` asks for the logarithm
    of the probability of each token and of that many most probable ones; `prompt_logprobs` for
    those of the tokens of the prompt.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers outside of their ranges."""
        counts = {"max_tokens": (self.max_tokens, 1), "top_k": (self.top_k, 0)}
        if self.logprobs is not None:
            counts["logprobs"] = (self.logprobs, 0)
        for name, (value, least) in counts.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise RequestError(f"{name} is a whole number, {least} or more, not {value!r}")
        if self.logprobs is not None and self.logprobs > MOST_LOGPROBS:
            raise RequestError(f"logprobs is at most {MOST_LOGPROBS}, not {self.logprobs}")
        for name, low, high in (
            ("temperature", 0.0, math.inf),
            ("top_p", 0.0, 1.0),
            ("min_p", 0.0, 1.0),
            ("repetition_penalty", 0.0, math.inf),
            ("presence_penalty", -math.inf, math.inf),
            ("frequency_penalty", -math.inf, math.inf),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not low <= value <= high or math.isinf(value):
                raise RequestError(f"{name} is a number from {low:g} to {high:g}, not {value!r}")
        if not self.top_p or not self.repetition_penalty:
            raise RequestError("top_p and repetition_penalty are above 0")
        if self.seed is not None and not 0 <= self.seed < MOST_SEEDS:
            raise RequestError(f"seed is 0 to 2**63 - 1, not {self.seed}")
        if any(not text for text in self.stops):
            raise RequestError("a stop text has at least one character")

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def is_random(self) -> bool:
        """Whether tokens are drawn, and not the most probable ones taken."""
        return self.temperature > 0

    @property
    def has_penalties(self) -> bool:
        """Whether logits change before the choice."""
        plain = (1.0, 0.0, 0.0)
        given = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty)
        return given != plain or bool(self.logit_bias)

    def updated(self, **changes: Any) -> SamplingParams:
        """The parameters with some of them changed."""
        return replace(self, **changes)


def read_defaults(folder: Path) -> tuple[SamplingParams, tuple[int, ...]]:
    """The parameters and end tokens that `generation_config.json` asks for, if there is one."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return SamplingParams(), ()
    raw = read_json(path)
    given: dict[str, Any] = {}
    if raw.get("do_sample"):
        given["temperature"] = float(raw.get("temperature", 1.0))
        for name, kind in (("top_k", int), ("top_p", float), ("min_p", float)):
            if raw.get(name) is not None:
                given[name] = kind(raw[name])
    if raw.get("repetition_penalty") is not None:
        given["repetition_penalty"] = float(raw["repetition_penalty"])
    return SamplingParams(**given), as_ids(raw.get("eos_token_id"))
