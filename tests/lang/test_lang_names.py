"""What the names of the kernel language do in Python: stand in annotations, and refuse the rest."""

import copy
import inspect
import operator
import pickle
import typing
from typing import Literal

import pytest

from tilewright import dims
from tilewright.dims import BM, BN, M, N, T
from tilewright.dtypes import AnyDType, f16, f32, i32
from tilewright.errors import InternalError, TilewrightError
from tilewright.lang import functions
from tilewright.lang.annotations import Const, Index, Mapped, Mut, MutPartition, Partition, Ref
from tilewright.lang.builtin import Builtin, builtin
from tilewright.lang.dimensions import Dim
from tilewright.lang.outside import OutsideKernelError
from tilewright.lang.tile import Tile

FUNCTIONS = [getattr(functions, name) for name in functions.__all__]


class HEADS(Dim): ...


@pytest.mark.parametrize("form", [Ref, Mut, Mapped])
@pytest.mark.parametrize("arguments", [(f32,), (f32, M), (T, M, HEADS), (f32, 128, Literal[4], N)])
def test_annotations_come_apart_at_run_time(form, arguments):
    annotation = form[arguments]
    assert typing.get_origin(annotation) is form
    assert typing.get_args(annotation) == arguments
    assert annotation == form[arguments]
    assert annotation != form[(f16, *arguments[1:])]


def test_one_argument_needs_no_tuple():
    assert typing.get_args(Const[int]) == (int,)
    assert typing.get_origin(Const[int]) is Const
    assert typing.get_args(Tile[f32]) == (f32,)
    assert typing.get_args(Ref[f32]) == (f32,)


def test_string_annotations_are_evaluated_with_local_names():
    class LOCAL(Dim): ...

    def kernel(z: "Mut[f32, BM]", x: "Ref[T, LOCAL, 128]", n: "i32", *, BK: "Const[int]" = 64): ...

    hints = typing.get_type_hints(kernel, localns=locals())
    assert hints == {
        "z": Mut[f32, BM], "x": Ref[T, LOCAL, 128], "n": i32, "BK": Const[int],
    }  # fmt: skip


@pytest.mark.parametrize("form", [Ref, Mut, Mapped, Partition, MutPartition, Tile, Index, Const])
def test_values_of_a_kernel_cannot_be_made_in_python(form):
    with pytest.raises(OutsideKernelError, match=f"`{form.__name__}` stands for a value inside"):
        form()
    with pytest.raises(OutsideKernelError):
        form(1, 2, three=3)


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lshift, operator.rshift, operator.and_,
    operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
UNARY = [operator.neg, operator.pos, abs, int, float, operator.index, range]


@pytest.mark.parametrize("operation", BINARY)
def test_a_dim_cannot_be_computed_with_in_python(operation):
    for operands in ((BM, 2), (2, BM), (BM, BN)):
        with pytest.raises(OutsideKernelError, match=r"`BM` is a dim: it has a value only inside"):
            operation(*operands)


@pytest.mark.parametrize("operation", UNARY)
def test_a_dim_is_no_number_in_python(operation):
    with pytest.raises(OutsideKernelError, match=r"`HEADS` is a dim"):
        operation(HEADS)


def test_a_dim_has_no_instances():
    with pytest.raises(OutsideKernelError, match="`HEADS` is a dim: write its name alone"):
        HEADS()


def test_dims_are_compared_and_hashed_by_identity():
    other = type(Dim)("BM", (Dim,), {})
    assert BM == BM
    assert other != BM
    assert BM != BN
    assert BM != 128
    assert len({BM, other, BN, BM}) == 3
    assert typing.get_args(Ref[f32, BM])[0] is f32
    assert typing.Optional[BM] == (BM | None)  # noqa: UP045 - the two spellings must agree


def test_the_ready_made_names_are_dims_and_one_placeholder():
    assert dims.T is T
    assert issubclass(T, AnyDType)
    for name in dims.__all__:
        assert getattr(dims, name).__name__ == name
        assert name == "T" or issubclass(getattr(dims, name), Dim)
    assert {"B", "BD", "BH", "BK", "BM", "BN", "BS", "D", "H", "K", "L"} < set(dims.__all__)
    assert {"M", "N", "P", "Q", "R", "S"} < set(dims.__all__)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_every_function_is_a_documented_builtin(function):
    assert isinstance(function, Builtin)
    assert functions.__all__.count(function.name) == 1
    assert function.__doc__.strip().rstrip("`)").endswith(".")
    assert function.signature == inspect.signature(function)
    assert repr(function) == f"<tw.{function.name}>"
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


ON_THE_HOST = {"arange", "cdiv", "full", "next_power_of_2", "ones", "rand", "zeros"}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_few_mean_something_on_the_host(function):
    assert (function.on_host is not None) == (function.name in ON_THE_HOST)
    if function.name in ON_THE_HOST:
        return
    with pytest.raises(OutsideKernelError, match=rf"`tw\.{function.name}` works inside a kernel"):
        function(1, 2)


def test_the_refusal_is_caught_as_ours_and_as_a_type_error():
    assert issubclass(OutsideKernelError, TilewrightError)
    assert issubclass(OutsideKernelError, TypeError)


def test_a_function_gets_its_meaning_on_the_host_once():
    @builtin
    def zeros(shape: object, dtype: object) -> object:
        """Zeros."""

    zeros.on_host = lambda shape, dtype: (shape, dtype)
    assert zeros((2, 3), dtype=f32) == ((2, 3), f32)
    with pytest.raises(InternalError, match=r"`tw\.zeros` has a meaning on the host already"):
        zeros.on_host = print
    assert zeros((1,), f32) == ((1,), f32)


def test_signatures_say_what_may_be_left_out():
    assert list(functions.sum.signature.parameters) == ["x", "axis", "keepdims"]
    assert functions.sum.signature.parameters["axis"].default is None
    assert functions.sum.signature.parameters["keepdims"].default is False
    bound = functions.full.signature.bind((2,), 1.0, dtype=f32)
    assert bound.arguments == {"shape": (2,), "value": 1.0, "dtype": f32}


@pytest.mark.parametrize("form", [Ref, Mut, Mapped, Partition, MutPartition, Tile, Index])
def test_every_method_is_documented(form):
    public = [name for name in vars(form) if not name.startswith("_")]
    assert form.__doc__
    assert all(inspect.getdoc(getattr(form, name)) for name in public)
