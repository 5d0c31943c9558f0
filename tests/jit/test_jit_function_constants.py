"""Functions that a kernel is compiled for, on disk: told apart, and found again, by their code."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from test_jit_disk_cache import counted, folder  # noqa: F401 (fixtures)

import tilewright as tw
from tilewright import Const, Mut, Ref, f32
from tilewright.dims import B, N

FACTOR = 2.0


def doubled(t):
    return t * FACTOR


def increased(t, by=1.0):
    return t + by


class Kind(Enum):
    PLAIN = 1
    HALVED = 2

    def __repr__(self) -> str:
        return "a kind"  # a key that is made of this would not tell them apart


def mapped(
    z: Mut[f32, B],
    x: Ref[f32, N],
    *,
    ACT: Const[Callable[[Any], Any]],
    MODE: Const[str] = "",
    KIND: Const[Kind] = Kind.PLAIN,
) -> None:
    t = ACT(x.load_like(z))
    t = t / 2 if KIND is Kind.HALVED else t
    z.store(t if MODE == "" else t + t)


def build(**constants) -> None:
    """Compile the kernel as a new process would."""
    kernel = tw.kernel(mapped)
    z, x = (tw.meta((1024,), f32, target="sm_90") for _ in range(2))
    op = kernel(z.partition(128), x, **constants)
    try:
        op.compile()
    finally:
        op.close()
    (executable,) = kernel._executables.entries()
    executable.program.result()


@pytest.mark.usefixtures("folder")
def test_each_function_is_compiled_once(counted):  # noqa: F811
    for _ in range(2):
        build(ACT=doubled)
        build(ACT=increased)
        build(ACT=tw.exp)
        build(ACT=doubled, MODE="twice")
        build(ACT=doubled, KIND=Kind.HALVED)
    assert counted["front end"] == 5


@pytest.mark.usefixtures("folder")
def test_what_a_function_does_is_part_of_the_key(counted, monkeypatch):  # noqa: F811
    build(ACT=doubled)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    build(ACT=doubled)
    assert counted["front end"] == 2
    build(ACT=increased)
    monkeypatch.setattr(increased, "__defaults__", (7.0,))
    build(ACT=increased)
    assert counted["front end"] == 4
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    build(ACT=doubled)
    assert counted["front end"] == 4
