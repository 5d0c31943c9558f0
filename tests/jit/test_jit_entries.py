"""Entries of the cache are plain data: no code is named in them, and forged ones are misses."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import re
import types
from dataclasses import dataclass, is_dataclass
from enum import Enum
from pathlib import Path

import pytest
from entry_samples import samples
from test_jit_disk_cache import add, build, counted, folder  # noqa: F401 (fixtures)

import tilewright as tw
from tilewright.analysis.formulas import Formula
from tilewright.analysis.terms import Atom
from tilewright.check.launch import LaunchCheck
from tilewright.frontend.source.captures import CapturePlace, Captures, PlaceKind
from tilewright.ir.launch_terms import LaunchTerm
from tilewright.jit.cache import disk as disk_cache
from tilewright.jit.cache.disk import CLASSES, read_facts, write_facts
from tilewright.jit.cache.plain_data import MOST_DEEP, Schema, Unreadable, Unwritable
from tilewright.jit.cache.store import _MAGIC, FOLDER

SOURCES = sorted(Path(tw.__file__).parent.rglob("*.py"))


def test_no_module_of_ours_runs_what_it_reads():
    """They are for text that we write, and for annotations of the user's own kernel."""
    modules = re.compile(r"^\s*(?:import|from) (pickle|marshal|shelve|dill|cloudpickle)\b", re.M)
    calls = re.compile(r"(?<![.\w])(exec|eval)\(")
    found = {}
    for path in SOURCES:
        text = path.read_text()
        assert not modules.search(text), path
        if calls.search(text):
            found[path.name] = set(calls.findall(text))
    assert found == {
        "signature.py": {"eval"},
        "text_functions.py": {"exec"},
        "compiler.py": {"exec"},
        "inspecting.py": {"exec"},
        "short.py": {"eval"},
    }


def _concrete(cls):
    below = [found for sub in cls.__subclasses__() for found in _concrete(sub)]
    is_ours = cls.__module__.startswith("tilewright.")
    return below + ([cls] if is_ours and is_dataclass(cls) and not inspect.isabstract(cls) else [])


def test_every_class_of_facts_is_listed():
    samples()  # all modules are loaded
    kinds = (*_concrete(Atom), *_concrete(LaunchCheck), *_concrete(Formula), *LaunchTerm.__args__)
    assert {cls.__name__ for cls in kinds} <= {cls.__name__ for cls in CLASSES}
    assert len({cls.__name__ for cls in CLASSES}) == len(CLASSES)


def test_bytes_that_name_code_are_refused(tmp_path):
    sample, marker = samples()[0], tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    good = write_facts(sample.facts, sample.functions, sample.request)
    rows = json.loads(good)
    forged = [
        pickle.dumps(Evil()),
        pickle.dumps(Evil(), 0),
        json.dumps([["subprocess.Popen", ["touch", str(marker)]]]).encode(),
        json.dumps([["__import__", "os"]]).encode(),
        json.dumps([*rows[:-1], ["Evil", *rows[-1][1:]]]).encode(),
        b"[" * 100_000,
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
    ]
    for data in forged:
        with pytest.raises(Unreadable):
            read_facts(data, sample.functions, sample.request)
    assert not marker.exists()
    assert read_facts(good, sample.functions, sample.request).name == sample.facts.name


def test_facts_of_another_kernel_are_refused():
    one, other = samples()[0], samples()[1]
    data = write_facts(other.facts, other.functions, other.request)
    with pytest.raises(Unreadable):
        read_facts(data, one.functions, one.request)


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Leaf:
    number: int
    word: str
    truth: bool
    part: float
    colour: Colour
    both: int | str | None
    pair: tuple[int, str]
    several: frozenset[int]


LEAF = Leaf(-3, "ü\n", True, -0.0, Colour.BLUE, "x", (1, "a"), frozenset({3, 1}))
SCHEMA = Schema((Leaf,))


def test_plain_data_both_ways():
    data = SCHEMA.write(LEAF)
    assert SCHEMA.read(data, Leaf) == LEAF
    assert str(SCHEMA.read(data, Leaf).part) == "-0.0"
    for both in (1, None, "y"):
        changed = Leaf(0, "", False, float("inf"), Colour.RED, both, (0, ""), frozenset())
        assert SCHEMA.read(SCHEMA.write(changed), Leaf) == changed


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (1, True, "a bool stands for a int"),
        (1, 1.0, "a float stands for a int"),
        (1, 2**1025, "a number is too large"),
        (2, 7, "a int stands for a str"),
        (3, 1, "a int stands for a bool"),
        (4, "nine", "'nine' is no number"),
        (4, 1.5, "a float stands for a str"),
        (5, "GREEN", "Colour has no member of that name"),
        (5, 1, "a int stands for a str"),
        (6, [1], "a list stands for a int or str or NoneType"),
        (6, True, "a bool stands for a int or str or NoneType"),
        (7, [1], "there are 1 values for 2"),
        (8, 3, "a int stands for a list"),
    ],
)
def test_fields_are_held_to_their_types(field, value, reason):
    (row,) = json.loads(SCHEMA.write(LEAF))
    row[field] = value
    with pytest.raises(Unreadable, match=f"^{re.escape(reason)}$"):
        SCHEMA.read(json.dumps([row]).encode(), Leaf)


@dataclass(frozen=True)
class Chain:
    before: Chain | None


def _chain(length):
    found = None
    for _ in range(length):
        found = Chain(found)
    return found


def test_depth_and_references_are_bounded():
    schema = Schema((Chain,))
    data = schema.write(_chain(MOST_DEEP))
    assert schema.read(data, Chain) == _chain(MOST_DEEP)
    with pytest.raises(Unwritable):
        schema.write(_chain(MOST_DEEP + 1))
    too_deep = [["Chain", None], *(["Chain", n] for n in range(MOST_DEEP))]
    with pytest.raises(Unreadable, match=r"^too many objects are inside one another$"):
        schema.read(json.dumps(too_deep).encode(), Chain)
    for forward in (0, 1, -1):
        with pytest.raises(Unreadable, match=rf"^there is no row {forward} above row 0$"):
            schema.read(json.dumps([["Chain", forward], ["Chain", None]]).encode(), Chain)


def test_shared_objects_stay_shared():
    @dataclass(frozen=True, eq=False)
    class Pair:
        left: Pair | None
        right: Pair | None

    schema = Schema((Pair,), names={"Pair": Pair})
    found = None
    for _ in range(60):  # 2 ** 60 as a tree
        found = Pair(found, found)
    read = schema.read(schema.write(found), Pair)
    assert read.left is read.right
    assert len(json.loads(schema.write(read))) == 60


def test_classes_that_have_no_form_are_refused_when_they_are_listed():
    @dataclass(frozen=True)
    class Odd:
        field: complex

    @dataclass(frozen=True)
    class Either:
        field: str | float

    with pytest.raises(TypeError, match="no class that is listed is a complex"):
        Schema((Odd,))
    with pytest.raises(TypeError, match=r"two parts of str \| float are written as str"):
        Schema((Either,))
    with pytest.raises(Unwritable, match="Odd is not listed"):
        SCHEMA.write(Odd(1j))


# --- in the folder --------------------------------------------------------------------------------


def _sealed(key, contents):
    """A file with the right checksum, as a forger makes it."""
    return _MAGIC + hashlib.sha256(key.encode() + contents).digest() + contents


def _is_entry(path):
    return path.read_bytes()[40:].startswith(b"kernel\n")


def test_a_forged_entry_with_a_right_checksum_is_a_miss(folder, counted, tmp_path):  # noqa: F811
    build(add)
    (entry,) = [path for path in folder.glob(f"{FOLDER}/??/*") if _is_entry(path)]
    contents = entry.read_bytes()[40:]
    head, label, body = contents.split(b"\n", 2)
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    forgeries = [
        b"\n".join((head, label, pickle.dumps(Evil()))),
        b"\n".join((head, label, body[:-1])),
        b"\n".join((head, label.replace(b'"add"', b"7"), body)),
        b"\n".join((head, b'{"cubin": "../../etc/passwd"}', body)),
        b"kernel",
        b"kernel\n",
        b"",
    ]
    for number, forged in enumerate(forgeries):
        entry.write_bytes(_sealed(entry.name, forged))
        build(add)
        assert counted == {"front end": 2 + number, "tileiras": 1}
    assert not marker.exists()
    build(add)
    assert counted == {"front end": 1 + len(forgeries), "tileiras": 1}


def test_an_entry_moved_under_another_key_is_a_miss(folder, counted, caplog):  # noqa: F811
    build(add)
    build(add, tile=256)
    first, second = [path for path in folder.glob(f"{FOLDER}/??/*") if _is_entry(path)]
    first.write_bytes(second.read_bytes())
    build(add)
    build(add, tile=256)
    assert counted == {"front end": 3, "tileiras": 2}
    assert "is damaged and is removed" in caplog.text


def test_forged_places_run_no_code(folder, counted):  # noqa: F811
    build(add)
    for path in folder.glob(f"{FOLDER}/??/*"):
        if b'"_Places"' in path.read_bytes():
            for forged in (b"[" * 5000, b'[["_Places",[[0,"NAME","x"]]]]', b"{}"):
                path.write_bytes(_sealed(path.name, forged))
                build(add)
    assert counted == {"front end": 4, "tileiras": 1}


def test_places_of_a_file_are_asked_of_functions_and_modules_alone():
    asked = []

    class Curious:
        @property
        def value(self):
            asked.append("property")

    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = lambda name: asked.append(name)
    lazy.here = 3

    def kernel():
        return lazy, curious

    curious = Curious()
    names = [CapturePlace(None, PlaceKind.NAME, name) for name in ("lazy", "curious")]
    assert (
        Captures.look_up(kernel, [*names, CapturePlace(0, PlaceKind.ATTRIBUTE, "here")]) is not None
    )
    for forged in (
        CapturePlace(0, PlaceKind.ATTRIBUTE, "elsewhere"),
        CapturePlace(1, PlaceKind.ATTRIBUTE, "value"),
        CapturePlace(1, PlaceKind.NAME, "value"),
        CapturePlace(0, PlaceKind.DEFAULT, "here"),
        CapturePlace(7, PlaceKind.NAME, "here"),
        CapturePlace(-1, PlaceKind.ATTRIBUTE, "__class__"),
    ):
        assert Captures.look_up(kernel, [*names, forged]) is None
    assert asked == []


def test_kernels_that_cannot_be_written_are_compiled_every_time(folder, counted, monkeypatch):  # noqa: F811
    def unwritable(*_):
        raise Unwritable("of a class that is not listed")

    monkeypatch.setattr(disk_cache, "write_facts", unwritable)
    build(add)
    build(add)
    assert counted == {"front end": 2, "tileiras": 1}
