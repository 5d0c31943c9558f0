"""A sample of our kernels through the real assembler, each architecture once."""

import pytest

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f32, f64, i32, i64, kernels, u8
from tilewright.kernels.elements import copying, creation


def _numbers(target):
    return creation.normal_numbers(tw.meta(5000, bf16, target=target), 7, 2**64 - 1)


def _steps(target):
    return creation.even_steps(tw.meta(5000, f64, target=target), 0, -1.0, 1.0, 5000)


def _narrowed(target):
    src = tw.meta((300, 200), f32, target=target)
    return copying.convert(tw.meta((200, 300), f8e4m3fn, target=target), src.T)


def _all_axes(target):
    src = tw.meta((4,) * 6, u8, target=target)[(slice(1, None, 2),) * 6]
    return copying.convert(tw.meta((2,) * 6, u8, target=target), src.T)


def _wide_attention(target):
    q, k, v = (tw.meta((1, heads, 100, 128), f32, target=target) for heads in (4, 2, 2))
    return kernels.attention(q, k, v, causal=True, out=tw.meta(q.shape, f32, target=target))


def _wide_decoding(target):
    q, k, v = (tw.meta(s, f32, target=target) for s in ((1, 4, 64), *((1, 2, 999, 64),) * 2))
    lengths, out = tw.meta((1,), i32, target=target), tw.meta(q.shape, f32, target=target)
    return kernels.decode_attention(q, k, v, lengths, out=out)


def _one_token(target):
    """Queries and keys of one token of a model, from a fused row."""
    heads = tw.meta((1, 1, 48, 128), bf16, target=target).permute(0, 2, 1, 3)
    caches = [tw.meta((1, 8, 999, 128), bf16, target=target) for _ in "kv"]
    tables = [tw.meta((999, 64), f32, target=target) for _ in "cs"]
    norm, start = tw.meta((128,), bf16, target=target), tw.meta((1,), i32, target=target)
    new = (heads[:, :32], heads[:, 32:40], heads[:, 40:])
    out = tw.meta((1, 32, 1, 128), bf16, target=target)
    norms = {"q_norm": norm, "k_norm": norm}
    return kernels.norm_rope_append(*new, *caches, *tables, start, **norms, out=out)


def _sample(target):
    lines = [tw.meta((1,), dtype, target=target) for dtype in (f32, i32, f32, f32, i64, i64)]
    logits, out = (tw.meta(s, d, target=target) for s, d in (((1, 151936), f32), ((1,), i64)))
    return kernels.sample(logits, *lines, out=out)


@pytest.mark.parametrize(
    ("build", "target"),
    [
        (_numbers, "sm_80"),
        (_narrowed, "sm_90"),
        (_all_axes, "sm_100"),
        (_steps, "sm_120"),
        (_wide_attention, "sm_90"),
        (_wide_decoding, "sm_80"),
        (_one_token, "sm_90"),
        (_sample, "sm_90"),
    ],
)
def test_assembled(build, target):
    operation = build(target)
    operation.compile()
    operation.close()
