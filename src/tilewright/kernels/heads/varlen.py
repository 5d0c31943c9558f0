"""Attention of packed sequences of different lengths.

Queries are partitioned by the offsets at which sequences begin, which lie in device memory. Keys
are read in tiles that ignore sequence boundaries, and keys of other sequences are masked.
`varlen_attention` at the end chooses tiles and launches.
"""

from __future__ import annotations

from typing import Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BD, BM, C, D, H, K, L, N, T
from tilewright.kernels.arguments import check_one_device, check_tensor, giving, zeroed_output
from tilewright.kernels.heads.arguments import (
    check_attention,
    check_axes,
    scale_of,
    window_of,
)
from tilewright.kernels.heads.attending import Cache, Sight, attend
from tilewright.kernels.heads.channels import Channels
from tilewright.kernels.heads.configs import choose_varlen
from tilewright.kernels.heads.online_softmax import means

__all__ = ["varlen_attention", "varlen_attention_tiles"]


@tw.kernel(deny_checks=True)
def varlen_attention_tiles(
    z: Mut[T, Cut[N, BM], Cut[H, Literal[1]], Cut[D, BD]], q: Ref[T, N, H, D],
    k: Ref[T, Literal[1], K, L, D], v: Ref[T, Literal[1], K, L, D], k_offsets: Ref[i32, C],
    scale: f32, window: i32, *, BN: Const[int] = 128, GROUP: Const[int] = 1,
    CAUSAL: Const[bool] = False, WINDOWED: Const[bool] = False,
) -> None:  # fmt: skip
    """BM queries of one head and one sequence, partitioned by the offsets of the queries.

    GROUP query heads share a key head; `scale` is the scale of the scores times log2(e).
    """
    tw.require(D <= BD and z.segments == C - 1)
    sequence, _, h, _ = z.index
    low, high = k_offsets.gather(sequence), k_offsets.gather(sequence + 1)
    # The last query has the position of the last key.
    first = high - z.segment[1] + z.rows[0]
    sight = Sight(CAUSAL, WINDOWED, packed=True, even=False, window=window, low=low, high=high)
    queries = Channels(q.load_like(z).reshape(BM, BD))
    cache = Cache(k, v, 0, h // GROUP, BN, BD, 0)
    rows = attend(queries, cache, first, sight, scale)
    z.store(means(rows).first.astype(z.dtype).reshape(BM, 1, BD))


# --- the launch -----------------------------------------------------------------------------------


@tw.function
def varlen_attention(
    q: tw.Tensor, k: tw.Tensor, v: tw.Tensor, q_offsets: tw.Tensor, k_offsets: tw.Tensor, *,
    causal: bool = False, scale: float | None = None, window: int | None = None,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:  # fmt: skip
    """Attention of packed sequences: queries (N, H, D), keys and values (M, K, D).

    Sequence s has the queries `q_offsets[s]` to `q_offsets[s + 1]` and the keys `k_offsets[s]` to
    `k_offsets[s + 1]`; offsets are i32, increase, and are read on the device. The mask within a
    sequence is that of `attention`.

    The result of the operation is `out`, or a new tensor. Queries without a sequence are left
    unchanged in `out`, and are zero in a new tensor.
    """
    caller = "varlen_attention"
    check_axes(caller, "token head channel", q=q, k=k, v=v)
    heads = check_attention(caller, *(x.permute(1, 0, 2).unsqueeze(0) for x in (q, k, v)))
    for name, offsets in (("q_offsets", q_offsets), ("k_offsets", k_offsets)):
        check_tensor(caller, name, offsets, (i32,))
    check_one_device(caller, q=q, q_offsets=q_offsets, k_offsets=k_offsets)
    if q_offsets.ndim != 1 or q_offsets.shape != k_offsets.shape:
        raise tw.LaunchError(
            f"{caller} takes as many offsets of queries as of keys, one more than there are"
            f" sequences, not {q_offsets.shape} and {k_offsets.shape}"
        )
    z = zeroed_output(caller, out, q.shape, q.dtype, q)
    config = choose_varlen(heads)
    operation = config.applied_to(varlen_attention_tiles)(
        z.partition(config["BM"], 1, heads.width, segments=q_offsets),
        q,
        *(x.permute(1, 0, 2).unsqueeze(0) for x in (k, v)),
        k_offsets,
        scale_of(caller, scale, heads),
        window_of(caller, window),
        BN=config["BN"],
        GROUP=heads.group,
        CAUSAL=bool(causal),
        WINDOWED=window is not None,
    )
    return giving(operation, z)
