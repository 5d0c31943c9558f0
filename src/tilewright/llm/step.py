"""The two kinds of steps, and how each attends: prefill of a prompt, and decoding.

Prefill takes the tokens of one sequence, a chunk at a time, and is submitted launch by launch: the
host knows its lengths. Decoding takes one token of every slot. Its lengths lie on the device, so
all of it is recorded in a graph once, and a replay is one launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilewright as tw
from tilewright import i32, kernels
from tilewright.llm.model import LayerCache, Model, Run

__all__ = ["Decoding", "Prefilling", "submit"]


def submit(operation: tw.DeviceOp[Any]) -> None:
    """The `run` of a step that is not recorded."""
    operation.submit()


@dataclass(frozen=True)
class Prefilling:
    """Tokens of one slot, which follow `start` tokens that its cache already has."""

    starts: tw.Tensor  # i32 [1], holds `start`
    slot: int
    length: int  # with the tokens of this step

    def cache_of(self, cache: LayerCache) -> LayerCache:
        """The rows of the slot."""
        here = slice(self.slot, self.slot + 1)
        return LayerCache(cache.keys[here], cache.values[here])

    def attend(self, run: Run, q: tw.Tensor, cache: LayerCache, out: tw.Tensor) -> None:
        """Each token with all earlier ones and itself."""
        keys, values = (one[:, :, : self.length] for one in cache)
        run(kernels.attention(q, keys, values, causal=True, out=out))


class Decoding:
    """One token of every slot; a slot whose start lies behind its cache is idle."""

    def __init__(self, model: Model) -> None:
        config, slots = model.config, model.slots
        with tw.device(model.device):
            self.starts = tw.zeros((slots,), i32)
            self.lengths = tw.zeros((slots,), i32)
        queries = tw.empty((slots, config.heads, config.head_dim), model.dtype, device=model.device)
        self.parts = kernels.decode_parts(queries, model.caches[0].keys)

    def cache_of(self, cache: LayerCache) -> LayerCache:
        """The caches of all slots."""
        return cache

    def attend(self, run: Run, q: tw.Tensor, cache: LayerCache, out: tw.Tensor) -> None:
        """Each token with all positions of its slot."""
        how: dict[str, Any] = {"out": out[:, :, 0], "parts": self.parts}
        run(kernels.decode_attention(q[:, :, 0], *cache, self.lengths, **how))
