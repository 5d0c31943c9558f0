"""The sampler: the parameters of every slot on the device, and the launches that choose tokens.

Three kinds of steps exist, and a step is of the least kind that its requests need: GREEDY takes the
highest logit, RANDOM draws, and PENALISED changes the logits first. Greedy requests get the same
tokens from each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
from tilewright import bool_, f32, i32, i64, kernels
from tilewright.llm.model import Run
from tilewright.llm.params import SamplingParams

__all__ = ["Kind", "Logprobs", "Sampler", "kind_of", "logprobs_of"]


class Kind(IntEnum):
    """Kinds of steps, each of which can do all that an earlier one can."""

    GREEDY = 0
    RANDOM = 1
    PENALISED = 2


def kind_of(params: SamplingParams) -> Kind:
    """The least kind of step that a request needs."""
    if params.has_penalties:
        return Kind.PENALISED
    return Kind.RANDOM if params.is_random else Kind.GREEDY


class PenaltyTables(NamedTuple):
    """Tables of penalised requests, [slot, token]."""

    bias: tw.Tensor
    prompted: tw.Tensor
    counts: tw.Tensor
    adjusted: tw.Tensor  # the changed logits


class Logprobs(NamedTuple):
    """Logarithms of probabilities of one step, on the device until they are read."""

    losses: tw.Tensor  # minus that of the chosen token, [rows]
    log_sums: tw.Tensor  # [rows]
    best: tw.Tensor | None  # the highest logits, [rows, n]
    places: tw.Tensor | None  # their tokens


class Sampler:
    """Parameters and state of all slots."""

    def __init__(self, slots: int, vocabulary: int, device: tw.Device) -> None:
        self._shape, self._device = (slots, vocabulary), device
        with tw.device(device):
            self.temperatures, self.top_ps = tw.zeros((slots,), f32), tw.ones((slots,), f32)
            self.top_ks, self.min_ps = tw.zeros((slots,), i32), tw.zeros((slots,), f32)
            self.seeds, self.steps = tw.zeros((slots,), i64), tw.zeros((slots,), i64)
            self.repetition = tw.ones((slots,), f32)
            self.presence, self.frequency = tw.zeros((slots,), f32), tw.zeros((slots,), f32)

    @cached_property
    def tables(self) -> PenaltyTables:
        """Tables for penalties, made for the first request that has any."""
        with tw.device(self._device):
            made = [tw.zeros(self._shape, dtype) for dtype in (f32, bool_, i32, f32)]
        return PenaltyTables(*made)

    def set(self, slot: int, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        """Take a request into a slot."""
        numbers: tuple[tuple[tw.Tensor, Any], ...] = (
            (self.temperatures, params.temperature),
            (self.top_ks, min(params.top_k, self._shape[1])),
            (self.top_ps, params.top_p),
            (self.min_ps, params.min_p),
            (self.seeds, seed),
            (self.steps, 0),
            (self.repetition, params.repetition_penalty),
            (self.presence, params.presence_penalty),
            (self.frequency, params.frequency_penalty),
        )
        for tensor, number in numbers:
            tw.fill(tensor[slot : slot + 1], number).submit()
        if params.has_penalties:
            self._set_tables(slot, params, prompt)
        elif "tables" in self.__dict__:
            tw.fill(self.tables.bias[slot], 0).submit()

    def reset(self) -> None:
        """Write the state that steps change again."""
        tw.fill(self.steps, 0).submit()
        if "tables" in self.__dict__:
            tw.fill(self.tables.counts, 0).submit()
            tw.fill(self.tables.adjusted, 0).submit()

    def _set_tables(self, slot: int, params: SamplingParams, prompt: Sequence[int]) -> None:
        columns = self._shape[1]
        bias, prompted = np.zeros(columns, np.float32), np.zeros(columns, np.bool_)
        for token, value in params.logit_bias.items():
            bias[token] = value
        prompted[[token for token in prompt if token < columns]] = True
        for table, row in ((self.tables.bias, bias), (self.tables.prompted, prompted)):
            tw.copy(table[slot], tw.from_numpy(row, device=self._device)).submit()
        tw.fill(self.tables.counts[slot], 0).submit()

    def choose(self, kind: Kind, logits: tw.Tensor, ids: tw.Tensor, run: Run) -> None:
        """One token of every slot, from logits f32 [slots, tokens] to `ids`."""
        if kind is Kind.GREEDY:
            run(kernels.argmax(logits, out=ids))
            return
        if kind is Kind.PENALISED:
            bias, prompted, counts, adjusted = self.tables
            penalties = (self.repetition, self.presence, self.frequency)
            run(kernels.penalise(logits, bias, prompted, counts, *penalties, out=adjusted))
            logits = adjusted
        filters = (self.temperatures, self.top_ks, self.top_ps, self.min_ps)
        run(kernels.sample(logits, *filters, self.seeds, self.steps, out=ids))
        if kind is Kind.PENALISED:
            run(kernels.count_tokens(self.tables.counts, ids))


def logprobs_of(logits: tw.Tensor, ids: tw.Tensor, count: int) -> Logprobs:
    """Logarithms of the probabilities of ids, and of the `count` highest of each row; submitted."""
    loss, log_sum = (tw.empty(ids.shape, f32, device=ids.device) for _ in "ls")
    kernels.cross_entropy(logits, ids, out=(loss, log_sum)).submit()
    if not count:
        return Logprobs(loss, log_sum, None, None)
    shape = (*ids.shape, min(count, logits.shape[1]))
    best = tw.empty(shape, f32, device=ids.device)
    places = tw.empty(shape, i64, device=ids.device)
    kernels.top_k(logits, shape[-1], out=(best, places)).submit()
    return Logprobs(loss, log_sum, best, places)
