"""Whatever an entry of the cache says, it is read as facts that a launch can use, or is a miss.

`make fuzz` runs the same with more entries and another seed each time.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter

from entry_samples import Sample, samples

from tilewright.jit.cache.disk import CLASSES, read_facts, write_facts
from tilewright.jit.cache.plain_data import Unreadable

COUNT = int(os.environ.get("FUZZ_COUNT", "10000")) // 5
SEED = int(os.environ.get("FUZZ_SEED", "0"))

VALUES = [
    None, True, False, 0, 1, -1, 3, 2**31, -(2**63), 2**64, 2**1024, 2**5000, 1.5, 1e400, "", "z",
    "x", "z.offsets", "__class__", "os.system", [], [[]], [0], [[0, 1]], [None], {}, {"a": 1},
    "LOOP", "F32", "A" * 5000,
    *(cls.__name__ for cls in CLASSES),
]  # fmt: skip


def _places(value: object, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Everything in nested lists, by its place."""
    inner = enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for n, one in inner for place in _places(one, (*path, n)))]


def _changed(rows: list, chance: random.Random) -> bytes:
    """The text with a few parts put in place of others, taken away, or doubled."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.choice(_places(rows)[1:] or [(0,)])
        target = rows
        for number in place[:-1]:
            target = target[number]
        at = place[-1]
        match chance.randrange(5):
            case 0:
                target[at] = chance.choice(VALUES)
            case 1:
                target[at] = json.loads(json.dumps(chance.choice(target)))
            case 2 if isinstance(target[at], int):
                target[at] += chance.choice((-1, 1, 7))
            case 3:
                del target[at]
            case _:
                target.insert(at, json.loads(json.dumps(target[at])))
        if not rows:
            break
    return json.dumps(rows).encode()


def _flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)


def _follow(sample: Sample, data: bytes) -> None:
    """Read an entry and do with it what a launch does."""
    facts = read_facts(data, sample.functions, sample.request)
    for check in facts.launch_checks:
        assert check.holds(sample.environment) in (True, False)
        assert isinstance(check.explain(sample.environment), str)
        check.as_python(lambda _: "0")
    for note in facts.padded:
        if not note.holds(sample.environment):
            note.describe(sample.environment)


def test_entries_both_ways():
    for sample in samples():
        data = write_facts(sample.facts, sample.functions, sample.request)
        _follow(sample, data)
        facts = read_facts(data, sample.functions, sample.request)
        assert facts.launch_checks == sample.facts.launch_checks
        assert facts.arguments == sample.facts.arguments
        assert write_facts(facts, sample.functions, sample.request) == data
    said = "".join(write_facts(one.facts, one.functions, one.request).decode() for one in samples())
    for name in ("IndexInRange", "Precondition", "PaddedReduction", "AssertSite", "Variable"):
        assert f'"{name}"' in said, "samples have parts of every kind"


def test_changed_entries_are_misses_or_facts():
    written = [
        (sample, write_facts(sample.facts, sample.functions, sample.request))
        for sample in samples()
    ]
    outcomes: Counter[str] = Counter()
    for number in range(COUNT):
        chance = random.Random(SEED * COUNT + number)
        sample, data = written[number % len(written)]
        changed = _changed(json.loads(data), chance) if number % 3 else _flipped(data, chance)
        try:
            _follow(sample, changed)
            outcomes["read"] += 1
        except Unreadable as error:
            outcomes[str(error).partition(":")[0][:30]] += 1
        except Exception as error:
            raise AssertionError(f"entry {number}: {changed!r}") from error
    print(f"\n{COUNT:,} entries, seed {SEED}: {outcomes['read']:,} read, {len(outcomes)} ways")  # noqa: T201
    assert outcomes["read"] > COUNT // 100
    assert len(outcomes) > 15


def test_every_beginning_of_an_entry_is_a_miss():
    sample = samples()[0]
    data = write_facts(sample.facts, sample.functions, sample.request)
    for end in range(len(data)):
        try:
            _follow(sample, data[:end])
        except Unreadable:
            continue
        raise AssertionError(data[:end])
