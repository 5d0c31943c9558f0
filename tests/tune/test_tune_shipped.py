"""The records that we ship: each is of a kernel as it is now, asked for by the library, and usable.

Kernels are built for the target of their records with tensors that have no memory; tileiras is a
double.
"""

import datetime
import json
import re
from math import prod

import pytest

import tilewright as tw
from tilewright import f16, f32, i32, kernels
from tilewright.kernels.gemm.operands import specialised
from tilewright.kernels.tunables import TUNABLES
from tilewright.kernels.tunables.beginnings import dtype_of
from tilewright.kernels.tunables.heads import KEY_HEADS, TOKENS
from tilewright.kernels.tunables.several import VOCABULARY
from tilewright.tune import Config, Key, Record, Records
from tilewright.tune import records as tables
from tilewright.tune.engine import stale_reasons
from tilewright.tune.records import UNTUNED, read_records, shipped_file, write_records

FILES = sorted(shipped_file("any").parent.glob("*.json"))
SHIPPED = [(file.stem, one) for file in FILES for one in read_records(file, file.stem)]
each_record = pytest.mark.parametrize(
    ("target", "record"), SHIPPED, ids=lambda one: getattr(one, "kernel", one)
)


class Calls:
    """The call of each tunable function for a key, with tensors of a target that have no memory."""

    def __init__(self, target: str, key: Key) -> None:
        self.target, self.key = target, key
        self.dtype, self.shape = dtype_of(key), key.shape
        self.options = dict(key.options)

    def of(self, *shape, dtype=None):
        return tw.meta(shape, dtype or self.dtype, target=self.target)

    def matmul(self):
        _, m, n, k = self.shape
        is_transposed = self.options["layout"] == "nt"
        b = self.of(n, k) if is_transposed else self.of(k, n)
        is_fast = self.options.get("fast", False)
        return kernels.matmul(self.of(m, k), b, transpose_b=is_transposed, fast_accumulate=is_fast)

    gemv = matmul

    def attention(self):
        every, queries, length = self.shape
        batch, width = max(TOKENS // queries, 1), self.options["width"]
        q, k, v = (
            self.of(batch, every // batch, extent, width) for extent in (queries, length, length)
        )
        return kernels.attention(q, k, v, causal=self.options["causal"])

    def decode_attention(self):
        every, length = self.shape
        width, group = self.options["width"], self.options["group"]
        batch, heads = every // min(every, KEY_HEADS), min(every, KEY_HEADS)
        k, v = (self.of(batch, heads, length, width) for _ in range(2))
        q, lengths = self.of(batch, heads * group, width), self.of(batch, dtype=i32)
        return kernels.decode_attention(q, k, v, lengths)

    def softmax(self):
        return kernels.softmax(self.of(*self.shape))

    def rms_norm(self):
        return kernels.rms_norm(self.of(*self.shape), self.of(self.shape[1]))

    def layer_norm(self):
        weight, bias = self.of(self.shape[1]), self.of(self.shape[1])
        return kernels.layer_norm(self.of(*self.shape), weight, bias)

    def add_rms_norm(self):
        x, y = self.of(*self.shape), self.of(*self.shape)
        return kernels.add_rms_norm(x, y, self.of(self.shape[1]))

    def add(self):
        return kernels.add(self.of(*self.shape), self.of(*self.shape))

    def silu_mul(self):
        return kernels.silu_mul(self.of(*self.shape), self.of(*self.shape))

    def gelu(self):
        return kernels.gelu(self.of(*self.shape))

    def dropout(self):
        return kernels.dropout(self.of(*self.shape), 0.1, seed=1)

    def transpose(self):
        return kernels.transpose(self.of(*self.shape[1:]))

    def sum(self):
        *_, first, second = self.shape
        return kernels.sum(self.of(first, second), 0 if len(self.shape) == 3 else 1)

    def cumsum(self):
        return kernels.cumsum(self.of(*self.shape))

    def cross_entropy(self):
        return kernels.cross_entropy(self.of(*self.shape), self.of(self.shape[0], dtype=i32))

    def cross_entropy_gradient(self):
        numbers = (self.of(self.shape[0], dtype=dtype) for dtype in (i32, f32, f32))
        return kernels.cross_entropy_gradient(self.of(*self.shape), *numbers)

    def embedding(self):
        rows, width = self.shape
        return kernels.embedding(self.of(rows, dtype=i32), self.of(VOCABULARY, width))


class Watched(Records):
    """Records that remember what they were asked for."""

    asked: set[tuple[str, Key]] = set()

    def chosen(self, kernel, key, within=float("inf")):
        self.asked.add((kernel, key))
        return super().chosen(kernel, key, within)


@pytest.fixture
def watched(monkeypatch, nothing_assembled):
    """Makes records the only ones of a target, and tells of questions."""

    def watch(target, records):
        tables.forget_tables()
        monkeypatch.setitem(tables._tables, target, found := Watched(records))
        found.asked = set()
        return found

    yield watch
    tables.forget_tables()


def build(target: str, kernel: str, key: Key) -> None:
    getattr(Calls(target, key), kernel)().close()


@pytest.mark.parametrize("kernel", TUNABLES)
def test_keys_are_what_the_library_asks_for(kernel, watched, monkeypatch):
    """Of the keys with the same dtypes and options, the least one: others differ in extents.

    What it then launches with, as there is no record, is what the rule says.
    """
    applied, apply = [], Config.applied_to
    monkeypatch.setattr(
        Config, "applied_to", lambda config, kernel: applied.append(config) or apply(config, kernel)
    )
    for family in {key.family for key in TUNABLES[kernel].keys}:
        alike = (key for key in TUNABLES[kernel].keys if key.family == family)
        key = min(alike, key=lambda one: prod(one.shape))
        found = watched("sm_90", ())
        applied.clear()
        specialised.cache_clear()
        build("sm_90", kernel, key)
        assert (kernel, key) in found.asked
        assert TUNABLES[kernel].rule(key, "sm_90") in applied


@each_record
def test_it_is_of_the_kernel_as_it_is_and_of_a_key_that_is_tuned(target, record):
    """Where a kernel, or its rule, has changed, records are measured anew, or go."""
    tunable = TUNABLES[record.kernel]
    assert record.key in tunable.keys
    assert list(stale_reasons(record, tunable.source(record.key, target), None)) == []
    origin = record.provenance
    assert origin.tool == "benchmarks/tune_library.py", "found by a search, in the repository"
    assert origin.gpu.startswith("NVIDIA ")
    assert datetime.date.fromisoformat(origin.date) >= datetime.date(2026, 11, 15)
    for version in (origin.driver, origin.tileiras, origin.tilewright):
        assert re.fullmatch(r"[0-9]+(\.[0-9]+)+", version)


@each_record
def test_it_is_used_and_the_kernel_is_built_with_it(target, record, watched, monkeypatch):
    found = watched(target, [record])
    build(target, record.kernel, record.key)
    assert (record.kernel, record.key) in found.asked
    wanted = None if record.config == UNTUNED else record.config
    assert found.chosen(record.kernel, record.key, 0.0) == wanted


def test_files_are_as_they_are_written(tmp_path):
    """Sorted, one line each: a change of one is a change of its line."""
    for file in FILES:
        copy = tmp_path / file.name
        write_records(copy, file.stem, read_records(file, file.stem))
        assert copy.read_text() == file.read_text()
        assert json.loads(file.read_text())["records"]


def test_a_record_that_the_kernel_refuses_is_found(watched):
    """What the test above would say."""
    key = TUNABLES["softmax"].keys[0]
    origin = SHIPPED[0][1].provenance
    wrong = Record("softmax", key, Config.of(BM=3, PART=1024), 1e-5, origin)
    watched("sm_90", [wrong])
    with pytest.raises(tw.TilewrightError):
        build("sm_90", "softmax", key)
    assert f16.label in str(key)
