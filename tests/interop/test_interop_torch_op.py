"""A kernel as an operator of torch: eager, compiled, differentiated, refused."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from interop_kernels import add, copy

import tilewright as tw
from tilewright import Accum, Const, Cut, Mapped, Mut, Ref, f32, f64, i32
from tilewright.dims import BM, BN, B, K, M, N, T

torch = pytest.importorskip("torch", reason="needs torch")
names = itertools.count()


def fresh() -> str:
    """A name that torch has not seen: operators live as long as the process."""
    return f"tilewright_tests::op{next(names)}"


@tw.kernel
def scale(z: Mut[f32, B], x: Ref[f32, N], by: f32, *, twice: Const[bool] = False) -> None:
    tile = x.load_like(z) * by
    z.store(tile * 2.0 if twice else tile)


@tw.kernel
def gemm(c: Mapped[T, BM, BN], a: Ref[T, M, K], b: Ref[T, K, N], *, BK: Const[int] = 16) -> None:
    xs, ys = a.partition(BM, BK), b.partition(BK, BN)
    for at in c.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        c.store(acc.astype(c.dtype), at)


@tw.kernel
def split(lo: Mut[f32, B], hi: Mut[f32, B], x: Ref[f32, N]) -> None:
    tile = x.load_like(lo)
    lo.store(tw.minimum(tile, 0.0))
    hi.store(tw.maximum(tile, 0.0))


@tw.kernel
def count(z: Mut[i32, B], total: Accum[i32, N], x: Ref[i32, M]) -> None:
    tile = x.load_like(z)
    z.store(tile)
    total.add_at(tw.ones((B,), i32), tile)


def refuse(text: str):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


def compiled(function):
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.fixture(autouse=True)
def forgotten():
    """What torch has compiled for one test is no matter of the next."""
    yield
    torch._dynamo.reset()


def test_outputs_that_are_given():
    op = tw.torch_op(add, fresh(), tiles={"z": 16})
    x, y, z = torch.rand(100), torch.rand(100), torch.zeros(100)
    assert op(z, x, y) is None
    assert torch.equal(z, x + y)
    assert z._version >= 1

    def step(x, y):
        z = torch.zeros_like(x)
        op(z, x, y)
        return z * 2

    assert torch.equal(compiled(step)(x, y), (x + y) * 2)


def test_outputs_that_are_made():
    op = tw.torch_op(add, fresh(), tiles={"z": (16,)}, outputs=lambda x, y: torch.empty_like(x))
    x, y = torch.rand(100), torch.rand(100)
    assert torch.equal(op(x, y), x + y)
    assert torch.equal(compiled(lambda x, y: op(op(x, y).relu(), y))(x, y), x + y + y)


def test_shapes_may_change():
    op = tw.torch_op(copy, fresh(), tiles={"z": 16}, outputs=lambda x: torch.empty_like(x))
    function = torch.compile(lambda x: op(x) + 1, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (7, 33, 128):
        x = torch.rand(n)
        assert torch.equal(function(x), x + 1)


def test_numbers_and_constants():
    op = tw.torch_op(
        scale, fresh(), tiles={"z": 16}, outputs=lambda x, by, twice=False: torch.empty_like(x)
    )
    x = torch.rand(40)
    assert torch.equal(op(x, 3.0), x * 3)
    assert torch.equal(op(x, 3.0, twice=True), x * 3 * 2)
    assert torch.equal(compiled(lambda x: op(x, 0.5, True))(x), x * 0.5 * 2)


def test_walked_outputs_and_other_dtypes():
    op = tw.torch_op(
        gemm,
        fresh(),
        tiles={"c": lambda c: tw.partition(c, 16, 16).persistent(blocks=2)},
        outputs=lambda a, b, BK=16: a.new_empty(a.shape[0], b.shape[1]),
    )
    a, b = torch.rand(40, 24).bfloat16(), torch.rand(24, 33).bfloat16()
    wanted = (a.float() @ b.float()).bfloat16()
    torch.testing.assert_close(op(a, b), wanted, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(compiled(lambda a, b: op(a, b))(a, b), wanted, rtol=1e-2, atol=1e-2)


def test_several_outputs():
    op = tw.torch_op(
        split,
        fresh(),
        tiles={"lo": 16, "hi": 16},
        outputs=lambda x: (torch.empty_like(x), torch.empty_like(x)),
    )
    x = torch.randn(50)
    for function in (op, compiled(lambda x: op(x))):
        lo, hi = function(x)
        assert torch.equal(lo, x.clamp(max=0))
        assert torch.equal(hi, x.clamp(min=0))


def test_accumulators_are_written_too():
    op = tw.torch_op(count, fresh(), tiles={"z": 16})
    x = torch.randint(0, 4, (64,), dtype=torch.int32)
    z, total = torch.zeros(64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    op(z, total, x)
    assert torch.equal(total, torch.bincount(x, minlength=4).int())


def test_autograd_can_be_told():
    op = tw.torch_op(
        scale, fresh(), tiles={"z": 16}, outputs=lambda x, by, twice=False: torch.empty_like(x)
    )

    def keep(ctx, inputs, output):
        ctx.by = inputs[1]

    def backward(ctx, gradient):
        return op(gradient.contiguous(), ctx.by), None, None

    op.register_autograd(backward, setup_context=keep)
    x = torch.rand(20, requires_grad=True)
    op(x, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.full((20,), 3.0))


def test_torchs_own_check_of_operators():
    op = tw.torch_op(add, fresh(), tiles={"z": 16}, outputs=lambda x, y: torch.empty_like(x))
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(op, (torch.rand(20), torch.rand(20)), test_utils=tests)
    op = tw.torch_op(add, fresh(), tiles={"z": 16})
    torch.library.opcheck(op, (torch.zeros(20), torch.rand(20), torch.rand(20)), test_utils=tests)


def test_launch_errors_reach_the_caller():
    op = tw.torch_op(add, fresh(), tiles={"z": 16})
    with refuse("since x is read like z"):
        op(torch.zeros(10), torch.zeros(20), torch.zeros(20))
    same = torch.zeros(10)
    with pytest.raises(tw.BorrowError, match="also read by it"):
        op(same, same, torch.zeros(10))


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda x: (torch.empty_like(x), torch.empty_like(x)), "torch.Tensor, torch.Tensor"),
        (lambda _: None, "builtins.NoneType"),
        (lambda x: tw.zeros(x.shape, f32), "tilewright.Tensor"),
    ],
)
def test_outputs_are_as_many_tensors_of_torch_as_the_kernel_has(make, given):
    op = tw.torch_op(copy, fresh(), tiles={"z": 16}, outputs=make)
    with refuse(f"torch_op(copy): outputs= gives z as tensors of torch, and gave {given}"):
        op(torch.rand(20))


def test_outputs_of_a_kernel_that_has_one_may_be_a_tuple():
    op = tw.torch_op(copy, fresh(), tiles={"z": 16}, outputs=lambda x: (torch.empty_like(x),))
    x = torch.rand(20)
    for function in (op, compiled(lambda x: op(x))):
        assert torch.equal(function(x), x)


@pytest.mark.filterwarnings("ignore:Dynamo:UserWarning")  # of what it finds in our code
def test_a_kernel_that_a_compiled_function_calls_itself():
    """torch leaves its graph there: the call does what it does outside."""

    def function(x):
        z = torch.zeros_like(x)
        add(tw.partition(z, 16), x * 2, x).sync()
        return z + 1

    compiled_function = torch.compile(function, backend="eager")
    for n in (16, 33, 64):
        x = torch.rand(n)
        assert torch.equal(compiled_function(x), x * 2 + x + 1)


def test_what_cannot_be_an_operator():
    with refuse("torch_op takes a kernel, made by @tw.kernel, and function is none"):
        tw.torch_op(fresh, fresh(), tiles={})
    for name in ("add", "mine::", "mine::add::again", 3):
        with refuse('an operator of torch has a namespace and a name, "mine::add"'):
            tw.torch_op(add, name, tiles={"z": 16})
    with refuse("torch_op(add): tiles= says how each output is cut, so it has `z`, not nothing"):
        tw.torch_op(add, fresh(), tiles={})
    with refuse('tiles= says by name how each output is cut, {"z": 128}, and 16 has no names'):
        tw.torch_op(add, fresh(), tiles=16)
    with refuse("so it has `z`, not `x`, `z`"):
        tw.torch_op(add, fresh(), tiles={"z": 16, "x": 16})

    @tw.kernel
    def pairs(z: Mut[f32, B], at: tuple[i32, i32]) -> None:
        z.store(tw.full((B,), 1.0, f32))

    with refuse("`at` is a tuple of numbers, which torch has no type for"):
        tw.torch_op(pairs, fresh(), tiles={"z": 16})

    @tw.kernel
    def typed(z: Mut[f32, B], *, D: Const[tw.DType]) -> None:
        z.store(tw.zeros((B,), f32))

    with refuse("`D` is a dtype, which torch has no type of ours for"):
        tw.torch_op(typed, fresh(), tiles={"z": 16})


# --- parameters that a call may leave out ---------------------------------------------------------


@pytest.mark.parametrize("default", [0.5, 5, -2.0, math.inf, -math.inf, 1e300])
def test_any_number_may_be_a_default(default):
    @tw.kernel
    def moved(z: Mut[f64, Cut[N, B]], x: Ref[f64, N], by: f64 = default) -> None:
        z.store(x.load_like(z) + by)

    op = tw.torch_op(moved, fresh(), tiles={"z": 16}, outputs=lambda x, by: torch.empty_like(x))
    x = torch.ones(20, dtype=torch.float64)
    assert torch.equal(op(x), x + default)
    assert torch.equal(compiled(lambda x: op(x))(x), x + default)
    assert torch.equal(op(x, 2.0), x + 2)


@pytest.mark.parametrize("default", ["double", 'it\'s "quoted", and \\ é', ""])
def test_any_string_may_be_a_default(default):
    @tw.kernel
    def chosen(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], *, how: Const[str] = default) -> None:
        z.store(x.load_like(z) * (2.0 if how == default else 3.0))

    op = tw.torch_op(chosen, fresh(), tiles={"z": 16}, outputs=torch.empty_like)
    x = torch.ones(20)
    assert torch.equal(op(x), x * 2)
    assert torch.equal(op(x, how=default), x * 2)
    assert torch.equal(op(x, how="another"), x * 3)


@tw.kernel
def counted(
    z: Mut[f32, Cut[M, B]], x: Ref[f32, M, N], *, BY: Const[int] = 2, N: Const[int], K: Const[int]
) -> None:
    z.store(tw.full((B,), N * BY + K, f32))


def test_a_constant_that_an_extent_gives_may_be_left_out():
    def output(x, *, N, K):
        return x.new_empty(x.shape[0])

    made = tw.torch_op(counted, fresh(), tiles={"z": 4}, outputs=output)
    given = tw.torch_op(counted, fresh(), tiles={"z": 4})
    for columns in (3, 5, 3):
        x, z = torch.ones(6, columns), torch.zeros(6)
        assert made(x, K=1).tolist() == [columns * 2 + 1] * 6
        assert compiled(lambda x: made(x, K=1))(x).tolist() == [columns * 2 + 1] * 6
        assert made(x, 3, K=1, N=columns).tolist() == [columns * 3 + 1] * 6
        given(z, x, K=0)
        assert z.tolist() == [columns * 2] * 6
    with refuse("`x` of kernel `counted` has extent 3 along axis 1, but N is 4 in this call"):
        made(torch.ones(6, 3), K=1, N=4)
    with refuse(
        "torch_op(counted): `N` is left out, which makes it the extent of `x` along axis 1, but"
        " that has shape (6,)"
    ):
        made(torch.ones(6), K=1)


# --- the function that makes the outputs ----------------------------------------------------------

STYLES = {
    "by keyword": lambda x, by, *, twice: torch.empty_like(x),
    "by keyword, with a default": lambda x, by, *, twice=True: torch.empty_like(x),
    "by name": lambda x, by, twice: torch.empty_like(x),
    "by name, with a default": lambda x, by, twice=True: torch.empty_like(x),
    "in another order": lambda twice, by, x: torch.empty_like(x),
    "without the constant": lambda x, by: torch.empty_like(x),
    "under other names": lambda one, other: torch.empty_like(one),
    "by position alone": lambda one, other, /, *, twice: torch.empty_like(one),
    "any": lambda **given: torch.empty_like(given["x"]),
    "any position": lambda *given: torch.empty_like(given[0]),
}


@pytest.mark.parametrize("style", STYLES)
def test_outputs_gets_every_parameter_in_every_call(style):
    op = tw.torch_op(scale, fresh(), tiles={"z": 16}, outputs=STYLES[style])
    op.register_autograd(
        lambda ctx, grad: (grad * ctx.by, None, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
    )
    for given, factor in (({}, 3), ({"twice": False}, 3), ({"twice": True}, 6)):
        assert op(torch.ones(32), 3.0, **given).tolist() == [factor] * 32
        x = torch.ones(32, requires_grad=True)
        op(x, 3.0, **given).sum().backward()
        assert x.grad.tolist() == [3] * 32
    with torch._subclasses.FakeTensorMode():
        assert op(torch.ones(32), 3.0).shape == (32,)


@pytest.mark.parametrize("style", ["by keyword", "by name, with a default"])
def test_outputs_gets_every_parameter_when_compiled(style):
    op = tw.torch_op(scale, fresh(), tiles={"z": 16}, outputs=STYLES[style])
    run = compiled(lambda x: (op(x, 3.0), op(x, 3.0, twice=False), op(x, 3.0, twice=True)))
    assert [one[0].item() for one in run(torch.ones(32))] == [3, 3, 6]


def test_outputs_is_told_the_defaults():
    seen = []

    def make(x, by, *, twice):
        seen.append((by, twice))
        return torch.empty_like(x)

    op = tw.torch_op(scale, fresh(), tiles={"z": 16}, outputs=make)
    op(torch.ones(16), 2.0)
    op(torch.ones(16), 2.0, twice=False)
    op(torch.ones(16), 2.0, twice=True)
    op(torch.ones(16), 2.0, True)
    assert seen == [(2.0, False), (2.0, False), (2.0, True), (2.0, True)]


def test_outputs_may_be_a_function_of_torch():
    op = tw.torch_op(copy, fresh(), tiles={"z": 16}, outputs=torch.empty_like)
    assert op(torch.arange(32.0)).tolist() == list(range(32))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: x, "function of `x`, `by`, `twice`, and the one given has the parameters (x)"),
        (lambda x, by, twice, more: x, "missing a required argument: 'more'"),
        (torch.zeros(3), "outputs= is a function that makes the outputs, not tensor([0., 0., 0.])"),
    ],
)
def test_outputs_that_cannot_be_called(make, text):
    with refuse(text):
        tw.torch_op(scale, fresh(), tiles={"z": 16}, outputs=make)
