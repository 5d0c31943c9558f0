"""Valid programs that ask for the unusual: an answer or an error of ours, never one of Python's."""

import itertools

import numpy as np
import pytest
from cpu_programs import Program, run

from tilewright.backends.cpu import printing
from tilewright.backends.cpu.executor import compile_function
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import CompileError, OutOfMemoryError, UndefinedBehaviourError
from tilewright.ir.attributes import DivBy, SameElements
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.ops.addresses import Alloca, GetGlobal
from tilewright.ir.ops.control import Assume, Print, Return
from tilewright.ir.ops.elementwise import AddI
from tilewright.ir.ops.memory import LoadPtr, MakeTensorView, Offset
from tilewright.ir.ops.shape import Constant, Iota, Reshape
from tilewright.ir.print_formats import is_format, split_format
from tilewright.ir.types import PtrType, TensorViewType, TileType, scalar
from tilewright.ir.verify.verifier import violations

I32, I64, F32 = Element.I32, Element.I64, Element.F32
LARGE = TileType(I64, (1 << 20,))  # 8 MiB


# --- names, formats, axes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a\0b", "x\x1b[31m", "ü\ud800".encode("utf-8", "replace").decode()]
)
def test_a_kernel_may_have_any_name(name):
    run(Program(name).finish(), (1, 1, 1))


def printing_kernel(format_, number, element=F32):
    program = Program()
    program.b.add(Print(args=(program.b.constant(number, element),), str=format_))
    return program.finish()


@pytest.mark.parametrize(
    ("format_", "number", "wanted"),
    [("%d", np.nan, "nan"), ("%x", np.inf, "inf"), ("%5d|", -np.inf, " -inf|"), ("%c", 65.0, "A")],
)
def test_an_integer_letter_shows_what_is_no_integer(format_, number, wanted, capsys):
    run(printing_kernel(format_, number), (1, 1, 1))
    assert capsys.readouterr().out == wanted


@pytest.mark.parametrize(
    ("format_", "why"),
    [
        ("%kd", "`%kd` has no meaning for a value that is printed"),
        ("%*d", r"`%\*d` has no meaning"),
        ("%1$d", r"`%1\$d` has no meaning"),
        ("%n", "`%n` has no meaning"),
        ("%999999999d", "`%999999999d` asks for more than the 4095 characters that C promises"),
        ("%.4096f", "asks for more than the 4095 characters"),
        ("%" + "9" * 5000 + "d", "asks for more than the 4095 characters"),
    ],
)
def test_a_place_that_c_has_no_meaning_for_is_reported(format_, why):
    with pytest.raises(UndefinedBehaviourError, match=f"print_tko cannot print: .*{why}"):
        run(printing_kernel(format_, 1, I32), (1, 1, 1))


def test_the_longest_place_that_c_promises_is_printed(capsys):
    run(printing_kernel("%04095d", 1, I32), (1, 1, 1))
    assert capsys.readouterr().out == "1".zfill(4095)


def test_the_verifier_and_the_cpu_count_the_places_of_a_format_alike():
    """Every format of up to four characters from the ones that matter."""
    for length in range(5):
        for characters in itertools.product("%d5*kn", repeat=length):
            text = "".join(characters)
            if not is_format(text):
                continue
            places, _ = split_format(text)
            program = Program()
            number = program.b.constant(1, I32)
            program.b.add(Print(args=(number,) * len(places), str=text))
            program.b.add(Return())
            assert not list(violations(Module((program.function,))))
            try:
                assert len(printing.fields(places)) == len(places)
            except printing.UnprintableError:
                continue


def test_more_axes_than_an_array_has_are_refused():
    program = Program("deep")
    flat = program.b.constant(1, I32)
    deep = program.add(Reshape(source=flat, to=TileType(I32, (1,) * 33)))
    program.add(AddI(lhs=deep, rhs=deep))
    with pytest.raises(CompileError, match="kernel `deep` has a value of 33 axes"):
        program.finish()


def test_as_many_axes_as_an_array_has_are_held():
    program = Program("deep")
    flat = program.b.constant(1, I32)
    deep = program.add(Reshape(source=flat, to=TileType(I32, (1,) * 32)))
    program.add(AddI(lhs=deep, rhs=deep))
    run(program.finish(), (1, 1, 1))


# --- promises about groups --------------------------------------------------------------------


def promising(predicate, element, shape):
    program = Program()
    tensor = program.tensor(element, len(shape))
    zero = program.b.index(0)
    tile = program.load(program.partition(tensor, shape), *[zero] * len(shape))
    program.add(Assume(value=tile, predicate=predicate))
    return program.finish()


@pytest.mark.parametrize("every", range(9))
def test_groups_that_do_not_divide_an_axis(every):
    kernel = promising(DivBy(4, every, 0), I32, (8,))
    size = max(every, 1)
    good = np.array([4 * (i // size) + i % size for i in range(8)], np.int32)
    if every <= 4:
        run(kernel, (1, 1, 1), good)
    for at in range(8) if every else ():
        wrong = good.copy()
        wrong[at] += 1
        with pytest.raises(UndefinedBehaviourError, match=f"promises groups of {every} along"):
            run(kernel, (1, 1, 1), wrong)


@pytest.mark.parametrize("groups", list(itertools.product(range(5), range(3))))
def test_equal_neighbours_in_groups_that_do_not_divide(groups):
    kernel = promising(SameElements(groups), I32, (4, 2))
    sizes = [max(group, 1) for group in groups]
    good = np.array([[i // sizes[0] * 10 + j // sizes[1] for j in range(2)] for i in range(4)])
    run(kernel, (1, 1, 1), good.astype(np.int32))
    if max(groups) > 1:
        wrong = good.astype(np.int32)
        wrong[-1, -1] += 1
        alone = 3 % sizes[0] == 0 and 1 % sizes[1] == 0
        if alone:
            run(kernel, (1, 1, 1), wrong)
        else:
            with pytest.raises(UndefinedBehaviourError, match="promises groups of"):
                run(kernel, (1, 1, 1), wrong)


@pytest.mark.parametrize("element", [Element.I8, Element.I16, I32, I64])
def test_a_divisor_need_not_fit_the_elements(element):
    kernel = promising(DivBy(1 << 62), element, (2,))
    run(kernel, (1, 1, 1), np.zeros(2, element.numpy))
    with pytest.raises(UndefinedBehaviourError, match="promises a multiple of 4611686018427387904"):
        run(kernel, (1, 1, 1), np.array([0, 64], element.numpy))


# --- extents, strides, offsets ----------------------------------------------------------------


def viewing():
    program = Program("views")
    base = program.param(PtrType(F32))
    extents = tuple(program.param(I64) for _ in range(2))
    strides = tuple(program.param(I64) for _ in range(2))
    to = TensorViewType(F32, (None, None), (None, None))
    view = program.add(
        MakeTensorView(base=base, dynamic_shape=extents, dynamic_strides=strides, to=to)
    )
    zero = program.b.index(0)
    program.load(program.partition(view, (1, 1)), zero, zero)
    return program.finish()


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((1 << 62, 1 << 62, 0, 0), "make_tensor_view has more elements than an array"),
        ((-1, 1, 0, 0), "make_tensor_view has more elements than an array"),
        ((2, 2, -1, 1), "make_tensor_view spans the addresses"),
        ((0, -1, -1, -1), "has index .0, 0., outside the view on axis 0"),
        ((1, 1, -1, 1 << 62), None),  # a step that is never taken
        ((1 << 40, 1, 0, 1), None),
    ],
)
def test_extents_and_strides_that_no_array_has(numbers, why):
    data = np.zeros(4, np.float32)
    arguments = [data.ctypes.data, *numbers]
    if why is None:
        viewing().run((1, 1, 1), arguments, [KernelMemory.of(data)])
    else:
        with pytest.raises(UndefinedBehaviourError, match=why):
            viewing().run((1, 1, 1), arguments, [KernelMemory.of(data)])


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("offset", [2**63 - 1, -(2**63), 2**61])
def test_an_offset_beyond_the_addresses_is_reported(offset, shape):
    program = Program()
    base = program.param(PtrType(F32))
    places = program.spread(base, shape, (1,) * len(shape)) if shape else base
    by = program.b.constant(offset, I64, shape)
    program.add(LoadPtr(source=program.add(Offset(ptr=places, offset=by))))
    data = np.zeros(4, np.float32)
    with pytest.raises(UndefinedBehaviourError, match="moves a pointer by"):
        program.finish().run((1, 1, 1), [data.ctypes.data], [KernelMemory.of(data)])


def test_offsets_that_wrap_in_small_steps_meet_no_limit_of_python():
    program = Program()
    base = program.param(PtrType(F32))
    by = program.b.constant(2**60, I64)
    for _ in range(3):
        base = program.add(Offset(ptr=base, offset=by))
    program.add(LoadPtr(source=base))
    data = np.zeros(4, np.float32)
    with pytest.raises(UndefinedBehaviourError, match="outside the memories of this launch"):
        program.finish().run((1, 1, 1), [data.ctypes.data], [KernelMemory.of(data)])


# --- small programs that take much memory -----------------------------------------------------


def limited(*ops, limit=1 << 26, globals=()):
    function = Function("bomb", Program().function.body)
    function.body.ops[:] = [*ops, Return()]
    return compile_function(function, Module((function,), globals=globals), limit=limit)


def test_a_hundred_counting_tiles_are_one_array():
    kernel = limited(*(Iota(to=LARGE) for _ in range(100)))
    assert kernel.source.count("k") < 100
    kernel.run((1, 1, 1), [], [])


def test_a_constant_that_is_used_often_is_held_once():
    numbers = np.arange(1 << 14, dtype=np.int32)
    to = TileType(I32, (1 << 14,))
    limited(*(Constant(value=numbers, to=to) for _ in range(1000)), limit=1 << 17)
    with pytest.raises(OutOfMemoryError, match=r"`bomb` needs more than 128\.0 KiB"):
        limited(*(Constant(value=numbers + i, to=to) for i in range(3)), limit=1 << 17)


def sums(count):
    first = Iota(to=LARGE)
    ops = [first]
    for _ in range(count):
        ops.append(AddI(lhs=ops[-1].result, rhs=first.result))
    return ops


def test_tiles_that_do_not_fit_are_refused_before_they_are_made():
    limited(*sums(6), limit=1 << 26)
    with pytest.raises(OutOfMemoryError, match=r"`bomb` needs more than 64\.0 MiB"):
        limited(*sums(8), limit=1 << 26)


def test_globals_are_placed_only_if_asked_for_and_only_if_they_fit():
    held = tuple(Global(f"g{i}", LARGE, 0) for i in range(200))
    limited(globals=held)
    asked = [GetGlobal(name=one.name, to=scalar(PtrType(I64))) for one in held]
    limited(*asked[:2], globals=held)
    with pytest.raises(OutOfMemoryError, match="memory of the module's globals needs more than"):
        limited(*asked, globals=held)


@pytest.mark.parametrize(("count", "alignment"), [(1 << 40, 8), (8, 1 << 40)])
def test_memory_of_a_block_is_counted(count, alignment):
    with pytest.raises(OutOfMemoryError):
        limited(Alloca(num_elem=count, alignment=alignment, to=scalar(PtrType(I64))))


def test_a_tile_that_is_printed_is_counted():
    tile = Iota(to=LARGE)
    with pytest.raises(OutOfMemoryError):
        limited(tile, Print(args=(tile.result,), str="%4000d"))
