"""Parameters in the order of the host, and promises stated once."""

import pytest
from block_interpreter import World, run
from ir_samples import I32, Sample, mnemonics, only

from tilewright.dtypes import Element
from tilewright.errors import InternalError
from tilewright.ir.arguments import Argument
from tilewright.ir.attributes import Bounded, DivBy, Rounding
from tilewright.ir.launch_terms import (
    BaseAddress,
    Blocks,
    Extent,
    ScalarArgument,
    Stride,
    TileCount,
)
from tilewright.ir.ops.control import Assume, GetNumTileBlocks
from tilewright.ir.ops.elementwise import DivI, ExtI, TruncI
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import PtrType, scalar
from tilewright.passes.bind_arguments import bind_arguments

I64 = scalar(Element.I64)
POINTER = scalar(PtrType(Element.I32))
ADDRESS = Argument(BaseAddress("z"), POINTER, divisor=16)
EXTENT = Argument(Extent("z", 0), I32, divisor=8, lower=0, upper=2**31 - 8)


def use(s, *terms, to=I32):
    """A store at the place that each launch value names."""
    z = s.view("z")
    for term in terms:
        value = s.add(LaunchValue(term=term, to=to)).result
        s.store(s.tile(0), z, value)
    return s.done()


def places(function, *arguments):
    return [a.index[0] for a in run(function, World({}, blocks=5), 0, arguments).accesses]


def test_parameters_stand_in_the_given_order_whether_used_or_not():
    spare = Argument(ScalarArgument("alpha"), scalar(Element.F32))
    function = bind_arguments(use(Sample()), (spare, EXTENT, ADDRESS))
    assert [value.type for value in function.params] == [spare.type, I32, POINTER]
    assert [value.hint for value in function.params] == ["alpha", "z", "z"]
    assert not only(function, LaunchValue)


def test_promises_are_stated_once_on_top():
    function = bind_arguments(use(Sample(), Extent("z", 0), Extent("z", 0)), (ADDRESS, EXTENT))
    address, extent = function.params
    assumes = only(function, Assume)
    by_value = {op.value: op for op in assumes}
    assert by_value[address].predicate == DivBy(16)
    bounded = by_value[extent]
    assert bounded.predicate == Bounded(0, 2**31 - 8)
    assert by_value[bounded.result].predicate == DivBy(8)
    assert len(assumes) == 3
    assert list(function.body.ops[:3]) == assumes
    assert places(function, "z", 24) == [24, 24]


def test_no_promise_no_assume():
    plain = (Argument(BaseAddress("z"), POINTER), Argument(Extent("z", 0), I32))
    assert "assume" not in mnemonics(bind_arguments(use(Sample(), Extent("z", 0)), plain))


def test_tile_counts_are_computed_once_from_the_extent():
    terms = (TileCount("z", 0, 128), TileCount("z", 0, 128), TileCount("z", 0, 1))
    function = bind_arguments(use(Sample(), *terms), (ADDRESS, EXTENT))
    (division,) = only(function, DivI)
    assert division.rounding is Rounding.POSITIVE_INF
    assert places(function, "z", 264) == [3, 3, 264]
    assert places(function, "z", 256) == [2, 2, 256]
    assert places(function, "z", 0) == [0, 0, 0]


def test_an_extent_that_can_only_be_one_number_is_a_constant():
    fixed = Argument(Extent("z", 0), I32, lower=300, upper=300)
    terms = (Extent("z", 0), TileCount("z", 0, 128), TileCount("z", 0, 1))
    function = bind_arguments(use(Sample(), *terms), (ADDRESS, fixed))
    assert "divi" not in mnemonics(function)
    assert len(function.params) == 2
    assert places(function, "z", 300) == [300, 3, 300]


def test_the_number_of_blocks_is_the_grids():
    function = bind_arguments(use(Sample(), Blocks()), (ADDRESS, EXTENT))
    assert len(only(function, GetNumTileBlocks)) == 1
    assert places(function, "z", 8) == [5]


def test_values_are_given_in_the_width_that_is_asked_for():
    wide = Argument(Stride("z", 0), I64, divisor=4, lower=0, upper=2**31 - 1)
    function = bind_arguments(use(Sample(), Stride("z", 0)), (ADDRESS, EXTENT, wide))
    (narrowed,) = only(function, TruncI)
    promised = [op.predicate for op in only(function, Assume)[-2:]]
    assert promised == [Bounded(0, 2**31 - 1), DivBy(4)]
    assert narrowed.result.type == I32
    assert places(function, "z", 8, 12) == [12]

    function = bind_arguments(use(Sample(), Extent("z", 0), to=I64), (ADDRESS, EXTENT))
    assert len(only(function, ExtI)) == 1
    assert places(function, "z", 16) == [16]


def test_a_scalar_is_itself():
    alpha = Argument(ScalarArgument("i"), I32)
    function = bind_arguments(use(Sample(), ScalarArgument("i")), (ADDRESS, EXTENT, alpha))
    assert places(function, "z", 8, -3) == [-3]


def test_a_value_that_no_argument_carries_is_our_mistake():
    with pytest.raises(InternalError, match=r"the kernel uses z\.shape\[1\], which no argument"):
        bind_arguments(use(Sample(), Extent("z", 1)), (ADDRESS, EXTENT))
    with pytest.raises(InternalError, match=r"which no argument carries"):
        bind_arguments(use(Sample(), TileCount("z", 1, 4)), (ADDRESS, EXTENT))


def test_what_is_made_on_top_has_no_place_in_the_source():
    function = bind_arguments(use(Sample(), TileCount("z", 0, 4)), (ADDRESS, EXTENT))
    (tile,) = [op for op in only(function, Constant) if op.value == 4]
    assert tile.loc is None
