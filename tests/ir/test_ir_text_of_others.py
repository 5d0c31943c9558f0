"""Text as NVIDIA's own sources write it, and numbers that do not fit."""

import numpy as np
import pytest

from tilewright.dtypes import Element
from tilewright.errors import MalformedTextError
from tilewright.ir.text import module_text, parse_module
from tilewright.ir.verify.verifier import violations

PLAIN = """\
global  @g alignment = 16 <i32: 3> : tile<1xi32>
entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {
  %cst_-1_i8 = constant <i8: -1> : tile<i8>
  %0 = alloca num_elem = 16, alignment = 32 : tile<ptr<f32>>
  %1 = offset %arg0, %arg1 : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
  return
}
"""
PREFIXED = """\
cuda_tile.module @kernels {
  cuda_tile.global @g alignment = 0x10 <i32: 0x3> : !cuda_tile.tile<1xi32>
  cuda_tile.entry @k(%p: !cuda_tile.tile<!cuda_tile.ptr<f32>>, %i: !cuda_tile.tile<i32>) {
    %c = cuda_tile.constant <i8: 0xFF> : !cuda_tile.tile<i8>
    %a = cuda_tile.alloca num_elem = 0x10, alignment = 0x20 : cuda_tile.tile<cuda_tile.ptr<f32>>
    %q = cuda_tile.offset %p, %i : !cuda_tile.tile<!cuda_tile.ptr<f32>>, !cuda_tile.tile<i32> ->
      !cuda_tile.tile<!cuda_tile.ptr<f32>>
  }
}
"""


def test_prefixes_heads_implied_returns_and_hexadecimal_numbers():
    assert module_text(parse_module(PREFIXED)) == PLAIN
    assert module_text(parse_module(PLAIN)) == PLAIN
    assert not list(violations(parse_module(PREFIXED)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cuda_tile.module @m {\n", "expected `entry` or `global`, found the end of the text"),
        ("module @m {}\nentry @k() {}", "expected the end of the text, found `entry`"),
        ("module {}", "expected `entry` or `global`, found `module`"),
        ("entry @k() { other.constant <i8: 1> : tile<i8> }", "expected an op, found"),
        ("entry @k() { cuda_tile.cuda_tile.return }", "expected an op, found"),
    ],
)
def test_what_is_still_refused(text, reason):
    with pytest.raises(MalformedTextError, match=reason):
        parse_module(text)


def constant(element, number):
    spelling = element.spelling
    text = f"entry @k() {{\n  %0 = constant <{spelling}: {number}> : tile<{spelling}>\n}}\n"
    return parse_module(text).functions[0].body.ops[0].value


@pytest.mark.parametrize("element", [Element.I8, Element.I16, Element.I32, Element.I64])
def test_hexadecimal_integers_are_bits_of_their_width(element):
    most = (1 << element.bits) - 1
    assert constant(element, hex(most)) == -1
    assert constant(element, hex(most >> 1)) == most >> 1
    assert constant(element, "0x0") == 0
    if element is not Element.I64:
        with pytest.raises(MalformedTextError, match=f"has more than the {element.bits} bits of"):
            constant(element, hex(most + 1))


@pytest.mark.parametrize(
    ("element", "bits"),
    [(Element.F16, 16), (Element.BF16, 16), (Element.F32, 32), (Element.TF32, 19),
     (Element.F8E4M3FN, 8), (Element.F4E2M1FN, 4)],
)  # fmt: skip
def test_hexadecimal_floats_have_no_more_bits_than_their_format(element, bits):
    assert np.isfinite(float(constant(element, "0x1")))
    with pytest.raises(MalformedTextError, match=f"has more than the {bits} bits of"):
        constant(element, hex(1 << bits))


@pytest.mark.parametrize("element", [Element.I8, Element.I32, Element.I64])
@pytest.mark.parametrize("word", ["true", "false"])
def test_a_truth_value_is_no_integer(element, word):
    with pytest.raises(MalformedTextError, match=f"{word} is no {element}"):
        constant(element, word)
    assert constant(Element.I1, word) is (word == "true")


@pytest.mark.parametrize("count", [-10, -1, 2**45, 2**63 - 1])
def test_memory_that_cannot_be_counted_is_refused(count):
    text = f"entry @k() {{\n  %0 = alloca num_elem = {count}, alignment = 16 : tile<ptr<f32>>\n}}"
    (found,) = violations(parse_module(text))
    assert found.message == f"`num_elem` must be 0 to 35184372088831, but is {count}"


@pytest.mark.parametrize("count", [0, 1, 2**44])
def test_memory_that_can_be_counted_is_accepted(count):
    text = f"entry @k() {{\n  %0 = alloca num_elem = {count}, alignment = 16 : tile<ptr<f32>>\n}}"
    assert not list(violations(parse_module(text)))


def test_a_tensor_without_strides_is_refused():
    text = (
        "entry @k(%p: tile<ptr<f32>>) {\n  %v = make_tensor_view %p, shape = [8], strides = [] : "
        "tensor_view<8xf32>\n}\n"
    )
    (found,) = violations(parse_module(text))
    assert found.message == "tensor_view<8xf32, strides=[]> has 1 extents and 0 strides"


HINTED = """\
entry @k(%p: tile<ptr<f32>>) optimization_hints=<sm_100 = {{{entry}}}> {{
  %r, %t = load_ptr_tko weak %p optimization_hints = <sm_100 = {{{op}}}> : tile<ptr<f32>> -> tile<f32>, token
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("entry", "op"),
    [
        ("num_cta_in_cga = 3", "latency = 3"),
        ("occupancy = 300", "latency = 30"),
        ('occupancy = "many"', "latency = 2.5"),
        ("news = 1", "news = true"),
    ],
)
def test_hints_that_tileiras_drops_are_wrong_only_in_what_we_write(entry, op):
    module = parse_module(HINTED.format(entry=entry, op=op))
    assert not list(violations(module, advice=False))
    assert bool(list(violations(module))) is ("news" not in entry)
