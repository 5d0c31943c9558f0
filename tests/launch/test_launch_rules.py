"""What a launch checks, rule by rule, cheapest first, and all of it before anything is allocated.

Each rule has a call that it refuses, with its message, and a neighbour that it accepts. Borrows,
order and failures have rules of their own (`tests/runtime`).
"""

import itertools
import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import BorrowError, Const, LaunchError, Mut, Ref, f16, f32, i32
from tilewright.dims import B, M, N, T


@tw.kernel
def add(z: Mut[f32, B], w: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], ids: Ref[i32, M]) -> None:
    tw.require(N > 32)
    w.store(x.load_like(z))
    z.store(y.load_like(z) + x.partition(B)[ids.partition(1).num_tiles(0)])


def ones(n: int = 64, dtype: type[tw.DType] = f32, **place) -> tw.Tensor:
    return tw.ones((n,), dtype, **place)


def good() -> dict[str, object]:
    """The arguments of a call that is accepted."""
    return {
        "z": ones().partition(16),
        "w": ones().partition(16),
        "x": ones(),
        "y": ones(),
        "ids": tw.zeros((2,), i32),
    }


# One mistake of each kind in the order in which they are looked for, and how it is told.
MISTAKES = {
    "number": (lambda a: a.pop("ids"), "missing a required argument: 'ids'"),
    "kind": (lambda a: a.update(x=[1.0]), "`x` of kernel `add` must be a tensor"),
    "rank": (lambda a: a.update(y=tw.ones((8, 8), f32)), "`y` of kernel `add` has rank 1"),
    "dtype": (lambda a: a.update(y=ones(dtype=f16)), "`y` of kernel `add` holds f32"),
    "device": (
        lambda a: a.update(ids=tw.zeros((2,), i32, device="cpu:1")),
        "`ids` of kernel `add` lives on cpu:1",
    ),
    "tile": (
        lambda a: a.update(w=ones().partition(8)),
        "`w` of kernel `add` is cut into tiles of 8 along axis 0, but B is 16 in this call",
    ),
    "dim": (lambda a: a.update(y=ones(60)), "`y` of kernel `add` has extent 60 along axis 0"),
    "grid": (
        lambda a: a.update(w=ones(80).partition(16)),
        "`w` of kernel `add` has a grid of (5,) pieces, but `z` has (4,)",
    ),
    "overlap": (
        lambda a: a.update(x=a["z"].tensor),
        "z is written by this launch and also read by it as x",
    ),
    "precondition": (
        lambda a: a.update(
            z=ones(32).partition(16), w=ones(32).partition(16), x=ones(32), y=ones(32)
        ),
        "the kernel requires `N > 32`",
    ),
    "launch check": (
        lambda a: a.update(ids=tw.zeros((9,), i32)),
        "`x`, axis 0: index 9, but the axis has 4 tiles",
    ),
}


def lazy(arguments) -> bool:
    """Whether none of the tensors has been given any bytes."""
    values = (getattr(value, "tensor", value) for value in arguments.values())
    return all(value.storage.is_lazy for value in values if isinstance(value, tw.Tensor))


def refuse(text: str, error: type[Exception] | tuple[type[Exception], ...] = LaunchError):
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_refused_before_anything_is_allocated(mistake):
    arguments = good()
    make, text = MISTAKES[mistake]
    make(arguments)
    with refuse(text, (LaunchError, BorrowError)):
        add(**arguments)
    assert lazy(arguments)


def test_the_call_without_a_mistake_is_accepted():
    arguments = good()
    operation = add(**arguments)
    assert lazy(arguments)  # a built operation has borrowed, and allocated nothing
    operation.sync()
    assert arguments["z"].tensor.numpy().tolist() == [2.0] * 64


# Another precondition's extents would be another grid's mistake.
PAIRS = [pair for pair in itertools.combinations(MISTAKES, 2) if pair != ("grid", "precondition")]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda name: name)
def test_of_two_mistakes_the_cheaper_one_is_told(first, second):
    arguments = good()
    for name in (second, first):
        MISTAKES[name][0](arguments)
    with refuse(MISTAKES[first][1], (LaunchError, BorrowError)):
        add(**arguments)


def test_rule_1_operations_among_the_arguments_run_first_and_their_errors_end_it():
    arguments = good()
    ids = tw.from_numpy(np.array([9], np.int32))
    failing = pick(ones(16).partition(16), ones(), ids).map(lambda result: result[0].tensor)

    def broken(_):
        raise ValueError("in a step")

    arguments["y"] = failing.map(broken)
    operation = add(**arguments)
    with pytest.raises(ValueError, match="in a step"):
        operation.submit()
    assert arguments["z"].tensor.storage.is_lazy
    arguments["y"] = pick(ones().partition(16), ones(), tw.zeros((4,), i32)).map(
        lambda result: result[0].tensor
    )
    add(**arguments).sync()


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])


def test_rule_2_placeholders_and_constants_are_bound():
    @tw.kernel
    def scale(z: Mut[T, B], x: Ref[T, N], *, BY: Const[int]) -> None:
        z.store(x.load_like(z) * BY)

    z = ones()
    with pytest.raises(LaunchError, match=r"missing a required (keyword-only )?argument: 'BY'"):
        scale(z.partition(16), ones())
    with refuse("`x` of kernel `scale` is f16, but T is f32 in this call"):
        scale(z.partition(16), ones(dtype=f16), BY=2)
    scale(z.partition(16), ones(), BY=3).sync()
    assert z.numpy().tolist() == [3.0] * 64


def test_rule_3_a_kernel_that_does_not_compile_is_tried_again():
    @tw.kernel
    def strange(z: Mut[f32, B]) -> None:
        z.store(tw.full((B,), NOT_YET, f32))  # noqa: F821

    z = ones()
    for _ in range(2):
        with pytest.raises(tw.CompileError, match="`NOT_YET` is not defined"):
            strange(z.partition(16))
    assert z.storage.is_lazy
    strange.__wrapped__.__globals__["NOT_YET"] = 5.0
    try:
        strange(z.partition(16)).sync()
    finally:
        del strange.__wrapped__.__globals__["NOT_YET"]
    assert z.numpy().tolist() == [5.0] * 64


@tw.kernel
def fixed(z: Mut[f32, 16], x: Ref[f32, 64]) -> None:
    z.store(x.load_like(z))


def test_rule_4_ranks_tiles_and_fixed_extents():
    z = ones()
    with refuse("`z` of kernel `fixed` has rank 1; the tensor has rank 2"):
        fixed(tw.ones((8, 8), f32).partition(8, 8), ones())
    with refuse("`z` of kernel `fixed` is cut into tiles of 32 along axis 0, but the signature"):
        fixed(z.partition(32), ones())
    with refuse("`x` of kernel `fixed` has extent 60 along axis 0, but the signature fixes it"):
        fixed(z.partition(16), ones(60))
    assert z.storage.is_lazy
    fixed(z.partition(16), ones()).sync()


def test_rule_5_preconditions():
    @tw.kernel
    def halves(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        tw.require(N % 64 == 0)
        z.store(x.load_like(z))

    with refuse("the kernel requires `N % 64 == 0`"):
        halves(ones(100).partition(16), ones(100))
    halves(ones(128).partition(16), ones(128)).sync()


@tw.kernel
def fill(z: Mut[i32, B]) -> None:
    z.store(tw.full((B,), tw.block_id(0) + 1, i32))


def test_rule_6_grids():
    z = tw.zeros((64,), i32)
    with refuse("`z` of kernel `fill` has a grid of (4,) pieces, one for each block, but the call"):
        fill.grid(3)(z.partition(16))
    with refuse("has no output with exactly one piece for each block"):
        fill(z.partition(16, prefix=True))
    with refuse("has a grid of (4,) pieces, but the launch has (5,) blocks"):
        fill.grid(5)(z.partition(16, prefix=True))
    assert z.storage.is_lazy
    fill.grid(4)(z.partition(16)).sync()
    fill.grid(2)(z.partition(16, prefix=True)).sync()
    assert z.numpy()[::16].tolist() == [1, 2, 3, 4]


def test_rule_7_what_the_compiler_derived():
    arguments = good()
    arguments["ids"] = tw.zeros((4,), i32)
    with refuse("`x`, axis 0: index 4, but the axis has 4 tiles, 0 to 3"):
        add(**arguments)
    assert lazy(arguments)
    arguments["ids"] = tw.zeros((3,), i32)
    add(**arguments).sync()


def test_rule_8_outputs_overlap_nothing_and_only_then_is_something_launched():
    z = ones()
    arguments = good() | {"z": z.partition(16)}
    for name, other in (("w", z.partition(16)), ("x", z), ("y", z.reshape(8, 8).reshape(64))):
        with refuse("is written by this launch and also", BorrowError):
            add(**(arguments | {name: other}))
    assert lazy(arguments)
    halves = tw.ones((128,), f32)
    arguments |= {"z": halves[:64].partition(16), "x": halves[64:]}
    operation = add(**arguments).compile()  # all the rules, and no launch
    assert lazy(arguments)
    operation.sync()
    assert halves.numpy().tolist() == [2.0] * 64 + [1.0] * 64
