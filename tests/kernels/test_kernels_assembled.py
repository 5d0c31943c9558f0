"""A sample of our kernels through the real assembler, each architecture once."""

import pytest

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f32, f64, u8
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


@pytest.mark.parametrize(
    ("build", "target"),
    [(_numbers, "sm_80"), (_narrowed, "sm_90"), (_all_axes, "sm_100"), (_steps, "sm_120")],
)
def test_assembled(build, target):
    operation = build(target)
    operation.compile()
    operation.close()
