"""The runner: prompts into slots, and one step for all slots at a time.

A slot holds one sequence. Its prompt is prefilled up to the last token, which is then the input of
a decoding step like every later one. Token, position, length and step of each slot lie on the
device and are moved on there, so a step can be queued before the tokens of the last one are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, f32, i32, i64
from tilewright.dims import B, N
from tilewright.llm.model import Model, Run, StepMemory, forward, head
from tilewright.llm.params import SamplingParams
from tilewright.llm.sampling import Kind, Logprobs, Sampler, logprobs_of
from tilewright.llm.step import Decoding, Prefilling, submit

__all__ = ["Runner", "advance"]

CHUNK = 512  # tokens of a prompt that are prefilled at a time
SCORED = 64  # rows of a prompt whose logits are in memory at a time


@tw.kernel(deny_checks=True)
def advance(
    starts: Mut[i32, Cut[N, B]], lengths: Mut[i32, Cut[N, B]], steps: Mut[i64, Cut[N, B]], end: i32
) -> None:
    """The next position, length and step of every slot; a slot at the end of its cache idles."""
    start = starts.load()
    is_active = start < end
    starts.store(tw.where(is_active, start + 1, start))
    lengths.store(tw.where(is_active, lengths.load() + 1, 0))
    steps.store(steps.load() + 1)


class Runner:
    """Slots of a model; `known` is the number of tokens that may be chosen."""

    def __init__(self, model: Model, known: int) -> None:
        self.model, self.known = model, known
        self._decoding, self._work = Decoding(model), StepMemory.allocate(model, model.slots)
        device, config = model.device, model.config
        self._logits = tw.empty((model.slots, config.vocabulary), f32, device=device)
        self._start = tw.empty((1,), i32, device=device)
        self._sampler = Sampler(model.slots, known, device)
        self._graphs: dict[Kind, tw.Graph] = {}
        with tw.device(device):
            self._ids = tw.zeros((model.slots,), i64)
        self._work = self._work._replace(ids=self._ids)
        for slot in range(model.slots):
            self.release(slot)

    @cached_property
    def _prefill(self) -> StepMemory:
        return StepMemory.allocate(self.model, min(CHUNK, self.model.length))

    def admit(
        self, slot: int, prompt: Sequence[int], params: SamplingParams, seed: int
    ) -> list[Logprobs]:
        """Take a prompt into a slot; the result has its logprobs, if they are asked for."""
        scores: list[Logprobs] = []
        ids = np.asarray(prompt, np.int64)
        for begin in range(0, len(ids) - 1, self._prefill.ids.shape[0]):
            end = min(begin + self._prefill.ids.shape[0], len(ids) - 1)
            work = self._prefill.first(end - begin)
            tw.copy(work.ids, tw.from_numpy(ids[begin:end], device=self.model.device)).submit()
            tw.fill(self._start, begin).submit()
            forward(self.model, work, Prefilling(self._start, slot, end), submit)
            if params.prompt_logprobs:
                scores += self._scored(work.normed, ids[begin + 1 : end + 1], params.logprobs or 0)
        self._sampler.set(slot, params, seed, prompt)
        self._place(slot, token=int(ids[-1]), start=len(ids) - 1, length=len(ids))
        return scores

    def release(self, slot: int) -> None:
        """Let a slot idle."""
        self._place(slot, token=0, start=self.model.length, length=0)

    def reset(self) -> None:
        """Empty all slots after a failure: a kernel that was stopped leaves parts of tensors.

        Every tensor that steps write is written again, whole, once the work in flight has ended.
        """
        while _has_failed(self.model.device):
            continue
        prefill = self._prefill.tensors() if "_prefill" in self.__dict__ else ()
        cached = (tensor for cache in self.model.caches for tensor in cache)
        written = (*self._work.tensors(), *prefill, *cached, *self._decoding.parts, self._logits)
        for tensor in (*written, self._start, self._decoding.lengths):
            tw.fill(tensor, 0).submit()
        tw.fill(self._decoding.starts, self.model.length).submit()
        self._sampler.reset()

    def step(self, kind: Kind) -> tw.Tensor:
        """Queue a step of all slots; the result will hold their tokens, i64 [slots]."""
        if kind not in self._graphs:
            with tw.graph() as graph:
                self._record(kind, graph.record)
            self._graphs[kind] = graph
        self._graphs[kind].launch().submit()
        tokens = tw.empty(self._ids.shape, i64, device=self.model.device)
        tw.copy(tokens, self._ids).submit()
        return tokens

    def logprobs(self, tokens: tw.Tensor, count: int) -> Logprobs:
        """Logprobs of the tokens of the last queued step."""
        return logprobs_of(self._logits, tokens, count)

    def logits(self) -> tw.Tensor:
        """The logits of the last queued step, f32 [slots, vocabulary]."""
        return self._logits

    def _record(self, kind: Kind, run: Run) -> None:
        """All launches of a step."""
        forward(self.model, self._work, self._decoding, run)
        head(self.model, self._work.normed, self._logits, run)
        self._sampler.choose(kind, self._logits[:, : self.known], self._ids, run)
        tile = tw.next_power_of_2(self.model.slots)
        lines = (self._decoding.starts, self._decoding.lengths, self._sampler.steps)
        run(advance(*(line.partition(tile) for line in lines), self.model.length))

    def _place(self, slot: int, *, token: int, start: int, length: int) -> None:
        here = slice(slot, slot + 1)
        tw.fill(self._ids[here], token).submit()
        tw.fill(self._decoding.starts[here], start).submit()
        tw.fill(self._decoding.lengths[here], length).submit()

    def _scored(
        self, hidden: tw.Tensor, labels: np.ndarray[tuple[int], np.dtype[np.int64]], count: int
    ) -> Iterator[Logprobs]:
        """Logprobs of the tokens that follow rows of a prompt."""
        for begin in range(0, len(labels), SCORED):
            rows = hidden[begin : begin + SCORED]
            shape = (rows.shape[0], self.model.config.vocabulary)
            logits = tw.empty(shape, f32, device=self.model.device)
            head(self.model, rows, logits, submit)
            some = tw.from_numpy(labels[begin : begin + SCORED], device=self.model.device)
            yield logprobs_of(logits, some, count)


def _has_failed(device: tw.Device) -> bool:
    """Wait for the device; whether it tells of a failure, one at a time."""
    try:
        device.synchronize()
    except tw.KernelFailure:
        return True
    return False
