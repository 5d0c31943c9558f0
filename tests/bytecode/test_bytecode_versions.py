"""What the versions of the bytecode write differently, byte by byte."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from bytecode_container import items_of, payloads_of
from tile_ir_programs import I32, Entry, tile
from tile_ir_views import gathered, strided

from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode import VERSIONS, encode
from tilewright.dtypes import Element
from tilewright.errors import CompileError
from tilewright.ir.attributes import (
    Bounded,
    Dictionary,
    DivBy,
    FloatIdentity,
    IntIdentity,
    SameElements,
    TargetHints,
    Visibility,
)
from tilewright.ir.function import Global, Module
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.addresses import Alloca, GetGlobal
from tilewright.ir.ops.control import Assume, Continue, For, Print
from tilewright.ir.ops.dependencies import GdcWait
from tilewright.ir.ops.elementwise import Exp, FToI, NegI, Tanh
from tilewright.ir.ops.memory import JoinTokens, LoadView, MakeToken
from tilewright.ir.ops.reduction import MmaF
from tilewright.ir.types import (
    FunctionType,
    Padding,
    PtrAttribute,
    PtrType,
    TensorViewType,
    scalar,
)

E = Element
_FUNCTIONS, _TYPES, _GLOBALS, _PRODUCER = 2, 5, 6, 7
_V1, _V2, _V3, _V4 = VERSIONS


def _op_bytes(build: Callable[[Entry], Op], version: tuple[int, int]) -> str:
    """The bytes of the op that is built last."""
    n = Entry()
    op = build(n)
    encoded = encode(n.module(), version)
    starts = [start for start, _ in encoded.places]
    place = next(i for i, (_, held) in enumerate(encoded.places) if held is op)
    return encoded.data[starts[place] : starts[place + 1]].hex()


def _types(build: Callable[[Entry], object], version: tuple[int, int]) -> list[bytes]:
    n = Entry()
    build(n)
    return items_of(payloads_of(encode(n.module(), version).data)[_TYPES], 4)


# --- ops -----------------------------------------------------------------------------------------


def test_a_flag_comes_with_its_version():
    product = tile(E.F16, 16, 16)

    def multiply(n: Entry) -> Op:
        lhs, rhs, acc = (n.given(product) for _ in range(3))
        return n.add(MmaF(lhs=lhs, rhs=rhs, acc=acc))

    old, new = (_op_bytes(multiply, version) for version in (_V2, _V3))
    assert (len(old), new[4:6]) == (len(new) - 2, "00")
    assert old == new[:4] + new[6:]


@pytest.mark.parametrize(
    ("op", "first", "value"), [(Exp, _V3, "05"), (Tanh, _V2, "05"), (NegI, _V2, "00")]
)
def test_an_attribute_comes_with_its_version(op: type[Op], first: tuple[int, int], value: str):
    kind = I32 if op is NegI else scalar(E.F32)
    before = VERSIONS[VERSIONS.index(first) - 1]
    old, new = (
        _op_bytes(lambda n: n.add(op(source=n.param(kind))), version) for version in (before, first)
    )
    assert new == old[:4] + value + old[4:]


def test_saturation_is_a_flag_of_the_newest():
    def cut(n: Entry) -> Op:
        return n.add(FToI(source=n.param(scalar(E.F32)), to=I32))

    assert _op_bytes(cut, _V3) == "2b" + "01" + "0106" + "00"
    assert _op_bytes(cut, _V4) == "2b" + "01" + "00" + "0106" + "00"


def test_unsigned_counting_is_a_flag_of_13_2():
    def count(n: Entry) -> Op:
        body = Block((Value(I32),), [Continue()])
        x = n.index()
        return n.add(For(lower_bound=x, upper_bound=x, step=x, body=body))

    assert _op_bytes(count, _V1).startswith("29" + "00" + "03" + "000000" + "01")
    assert _op_bytes(count, _V2).startswith("29" + "00" + "00" + "03" + "000000" + "01")


def test_print_had_no_token_at_first():
    def show(n: Entry) -> Op:
        return n.add(Print(str="%i", args=(n.index(),)))

    assert _op_bytes(show, _V1) == "55" + "00" + "00" + "0100"
    assert _op_bytes(show, _V2) == "55" + "0100" + "00" + "00" + "0100"


def test_a_dropped_result_is_not_numbered():
    n = Entry()
    n.add(Print(str="plain"))
    twice = n.add(MakeToken()).result
    n.add(JoinTokens(tokens=(twice, twice)))
    assert "join_tokens %1, %1" in find_toolchain().disassemble(encode(n.module(), _V1))


def test_a_dropped_result_cannot_be_used():
    n = Entry()
    shown = n.add(Print(str="plain")).result_token
    n.add(JoinTokens(tokens=(shown, shown)))
    with pytest.raises(CompileError, match=r"`result_token` of `print_tko` needs 13\.2"):
        encode(n.module(), _V1)
    encode(n.module(), _V2)


def test_inbounds_are_written_by_the_newest_only():
    def load(n: Entry) -> Op:
        return n.add(LoadView(view=n.view(E.F32, 8), index=(n.index(),)))

    old, new = (_op_bytes(load, version) for version in (_V3, _V4))
    assert len(new) == len(old) + 4
    assert "0000" + "0100" in new


def test_an_optional_operand_alone_is_counted():
    assert _op_bytes(lambda n: n.add(GdcWait()), _V4)[-2:] == "00"
    waiting = _op_bytes(lambda n: n.add(GdcWait(token=n.add(MakeToken()).result)), _V4)
    assert waiting[-4:] == "0100"


def test_memory_of_a_block():
    to = scalar(PtrType(E.F32))
    plain = _op_bytes(lambda n: n.add(Alloca(num_elem=300, alignment=8, to=to)), _V3)
    shared = _op_bytes(
        lambda n: n.add(Alloca(num_elem=300, alignment=8, to=to, global_memory=True)), _V3
    )
    assert (plain[4:], shared[4:]) == ("00" + "ac02" + "08", "01" + "ac02" + "08")


@pytest.mark.parametrize(
    ("promise", "data"),
    [
        (DivBy(16), "08" + "10" + "00"),
        (DivBy(16, every=4, along=1), "08" + "10" + "03" + "0802"),
        (SameElements((4, 2)), "09" + "02" + "0400000000000000" + "0200000000000000"),
        (Bounded(-1, None), "0c" + "01" + "01"),
        (Bounded(None, 2), "0c" + "02" + "04"),
    ],
)
def test_promises_describe_themselves(promise: object, data: str):
    def assume(n: Entry) -> Op:
        return n.add(Assume(value=n.given(tile(E.I32, 8, 4)), predicate=promise))

    opcode, operand = "06", 3  # results: reshaped, repeated and loaded, then its token
    assert re.fullmatch(rf"{opcode}..{data}{operand:02x}", _op_bytes(assume, _V1))


# --- types ---------------------------------------------------------------------------------------


def test_partition_views_moved_their_flags():
    def cut(n: Entry) -> Value:
        return n.view(E.F32, 8, padding=Padding.NAN)

    (old,) = (item for item in _types(cut, _V2) if item[0] == 15)
    (new,) = (item for item in _types(cut, _V3) if item[0] == 15)
    extent, tensor, axis = "0108000000", old[6:7].hex(), "0100000000"
    assert old.hex() == "0f" + extent + tensor + axis + "01" + "02"
    assert new.hex() == "0f" + "01" + extent + tensor + axis + "02"


def test_pointers_and_tensors_got_flags():
    def plain(n: Entry) -> Value:
        return n.tensor(E.F32, 1)

    old, new = (
        {item[0]: item.hex() for item in _types(plain, version) if item[0] in (12, 14)}
        for version in (_V3, _V4)
    )
    assert new[12] == "0c00" + old[12][2:]
    assert new[14] == "0e00" + old[14][2:]


def test_a_marked_pointer_says_so():
    def marked(n: Entry) -> Value:
        return n.param(scalar(PtrType(E.F32, PtrAttribute.NONE)))

    (pointer,) = (item for item in _types(marked, _V4) if item[0] == 12)
    assert pointer.hex()[:4] + pointer.hex()[6:] == "0c01" + "00"
    with pytest.raises(CompileError, match=r"a pointer with an attribute needs 13\.4"):
        _types(marked, _V3)


def test_strided_and_gathered_views():
    (view,) = (i for i in _types(lambda n: strided(n, (4, 7), (1, 0)), _V3) if i[0] == 21)
    tensor = view[20:21].hex()
    pairs = [f"02{a:02x}000000{b:02x}000000" for a, b in ((16, 32), (4, 7), (1, 0))]
    assert view.hex() == "15" + "00" + pairs[0] + pairs[1] + tensor + pairs[2]
    (view,) = (i for i in _types(lambda n: gathered(n, 1, Padding.ZERO), _V3) if i[0] == 20)
    assert view.hex() == "14" + "01" + pairs[0] + view[11:12].hex() + "01" + "00"
    with pytest.raises(CompileError, match=r"a strided view needs 13\.3"):
        _types(strided, _V2)


def test_the_youngest_element_has_a_long_tag():
    def scale(n: Entry) -> Value:
        return n.given(tile(E.FNV8E5M3FNU, 8))

    assert b"\x82\x01" in _types(scale, _V4)


# --- what stands beside the functions ------------------------------------------------------------


def _with_globals(*held: Global) -> Module:
    n = Entry()
    for part in held:
        assert isinstance(part.type.element, Element)
        n.add(GetGlobal(name=part.name, to=scalar(PtrType(part.type.element))))
    return Module((n.function(),), globals=held)


def test_globals_in_bytes():
    held = Global("g", tile(E.I32, 4), np.arange(4), alignment=16)
    old = payloads_of(encode(_with_globals(held), _V1).data)
    new = payloads_of(encode(_with_globals(held), _V3).data)
    assert (old[_GLOBALS][0], old[_GLOBALS][-1]) == (1, 16)
    assert new[_GLOBALS] == old[_GLOBALS] + b"\x00\x00"
    assert items_of(old[4], 8) == [b"\x10" + np.arange(4, dtype="<i4").tobytes()]


def test_private_and_constant_globals_need_13_3():
    for held in (
        Global("g", tile(E.I32, 4), 0, visibility=Visibility.PRIVATE),
        Global("g", tile(E.I32, 4), 0, constant=True),
    ):
        with pytest.raises(CompileError, match=r"a private or constant global needs 13\.3"):
            encode(_with_globals(held), _V2)
        data = payloads_of(encode(_with_globals(held), _V3).data)[_GLOBALS]
        assert data[-2:] == bytes((held.visibility.value, held.constant))


def test_no_globals_no_section():
    assert _GLOBALS not in payloads_of(encode(Entry().module()).data)


def test_the_producer_is_kept_and_written_from_13_3_on():
    module = Module((Entry().function(),), producer="somebody else")
    assert _PRODUCER not in payloads_of(encode(module, _V2).data)
    text = find_toolchain().disassemble(encode(module, _V3))
    assert text.startswith("// Producer: somebody else\n")


def test_hints_of_any_target_and_kind():
    kinds = Dictionary(
        (
            ("number", IntIdentity(E.I8, 200)), ("float", FloatIdentity(E.F16, 1.5)),
            ("text", "x"), ("list", (1, True)), ("type", tile(E.F32, 8)), ("element", E.F32),
            ("function", FunctionType((I32,))), ("tensor", TensorViewType(E.F32, (4,), (1,))),
            ("promise", DivBy(4)), ("nested", Dictionary((("deep", TargetHints.of(latency=2)),))),
        )
    )  # fmt: skip
    module = Module((Entry().function(),))
    module.functions[0].hints = TargetHints((("sm_90", kinds), ("sm_100", Dictionary())))
    text = find_toolchain().disassemble(encode(module, _V1))
    assert (
        "optimization_hints=<sm_100 = {}, sm_90 = {element = f32, float = 1.500000e+00, "
        "function = (!cuda_tile.tile<i32>) -> (), list = [1 : i32, true], "
        "nested = {deep = #cuda_tile.optimization_hints<default = {latency = 2}>}, number = -56, "
        "promise = #cuda_tile.div_by<4>, tensor = !cuda_tile.tensor_view<4xf32, strides=[1]>, "
        'text = "x", type = !cuda_tile.tile<8xf32>}> {'
    ) in text
