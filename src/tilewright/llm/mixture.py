"""A mixture of experts as launches: routing, two products for the rows of each expert, the sum.

A token is copied once for each of its experts, and the copies are lined up by expert, so that a
product with ragged groups of rows reads each used expert once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import f32, i32, kernels
from tilewright.llm.config import Experts
from tilewright.llm.weights import Mixture

__all__ = ["MixtureWork", "mix_experts"]


class MixtureWork(NamedTuple):
    """Memory of a mixture for M tokens with K of E experts each."""

    logits: tw.Tensor  # f32 [M, E]
    experts: tw.Tensor  # i32 [M, K]
    shares: tw.Tensor  # f32 [M, K]
    ranks: tw.Tensor  # i32 [M K + E + 1]
    tokens: tw.Tensor  # i32 [M K]
    rows: tw.Tensor  # [M K, hidden]: tokens by expert, before the experts
    gate_up: tw.Tensor  # [M K, 2 intermediate]
    gated: tw.Tensor  # [M K, intermediate]
    done: tw.Tensor  # [M K, hidden]: the results of the experts

    @classmethod
    def allocate(cls, experts: Experts, x: tw.Tensor) -> MixtureWork:
        """Memory for the rows of `x`."""
        (rows, hidden), count, used = x.shape, experts.count, experts.used
        choices, inner, dtype = rows * used, experts.intermediate, x.dtype

        def made(shape: tuple[int, ...], kind: type[tw.DType]) -> tw.Tensor:
            return tw.empty(shape, kind, device=x.device)

        return cls(
            made((rows, count), f32), made((rows, used), i32), made((rows, used), f32),
            made((choices + count + 1,), i32), made((choices,), i32),
            made((choices, hidden), dtype), made((choices, 2 * inner), dtype),
            made((choices, inner), dtype), made((choices, hidden), dtype),
        )  # fmt: skip

    def first(self, rows: int) -> MixtureWork:
        """The memory of the first rows."""
        used = self.experts.shape[1]
        choices, behind = rows * used, self.ranks.shape[0] - self.tokens.shape[0]
        return MixtureWork(
            self.logits[:rows], self.experts[:rows], self.shares[:rows],
            self.ranks[: choices + behind], *(one[:choices] for one in self[4:]),
        )  # fmt: skip

    @property
    def routes(self) -> kernels.Routes:
        """The memory of the routing."""
        return kernels.Routes(self.experts, self.shares, self.ranks, self.tokens)


def mix_experts(
    experts: Experts,
    weights: Mixture,
    normed: tw.Tensor,
    residual: tw.Tensor,
    work: MixtureWork,
    out: tw.Tensor,
    run: Callable[[tw.DeviceOp[Any]], object],
) -> None:
    """`out = residual + sum of share * expert(normed)` over the experts of each token."""
    routes, inner = work.routes, experts.intermediate
    run(kernels.matmul(normed, weights.router, transpose_b=True, out=work.logits))
    how = {"normalised": experts.is_normalised}
    run(kernels.route(work.logits, experts.used, **how, out=routes))
    run(kernels.embedding(work.tokens, normed, out=work.rows))
    offsets = routes.offsets
    run(
        kernels.grouped_matmul(
            work.rows, weights.gate_up, offsets, transpose_b=True, out=work.gate_up
        )
    )
    gate, up = work.gate_up[:, :inner], work.gate_up[:, inner:]
    run(kernels.silu_mul(gate, up, out=work.gated))
    run(kernels.grouped_matmul(work.gated, weights.down, offsets, transpose_b=True, out=work.done))
    run(kernels.combine(residual, work.done, routes.slots, routes.shares, out=out))
