"""Whatever the bytes, the reader reads them or refuses them, at once; so do verifier and printer.

`make fuzz` runs the same with more files and another seed each time.
"""

import os

import pytest
from bytecode_mutations import Finding, Outcome, mutations, run
from fuzz_seeds import seed_files
from hypothesis import given
from hypothesis import strategies as st

from tilewright.bytecode import decode, encode
from tilewright.ir.function import Module
from tilewright.ir.text import module_text
from tilewright.ir.verify.verifier import violations

COUNT = int(os.environ.get("FUZZ_COUNT", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
_PARTS = 4  # so that several processes share the work


def _told(findings: list[Finding]) -> str:
    return "\n".join(f"{one.number}: {one.problem}: {one.data.hex()}" for one in findings[:5])


def _report(what: str, seed: int, outcome: Outcome) -> None:
    total = outcome.read + outcome.refused
    print(  # noqa: T201 (for those who run `make fuzz`)
        f"\n{what}: {total:,} files, seed {seed}: {outcome.read:,} read, {outcome.refused:,} "
        f"refused for {len(outcome.reasons):,} reasons, slowest {outcome.slowest * 1e3:.0f} ms"
    )


def _follow(module: Module) -> None:
    """What `tilewright disasm` does with what was read, and writing it again."""
    if not list(violations(module, "sm_121")):
        module_text(module)
        decode(encode(module, (13, 4)).data)


@pytest.mark.parametrize("part", range(_PARTS))
def test_mutated_files(part: int):
    seed = SEED * _PARTS + part
    outcome, findings = run(mutations(seed_files(), seed, COUNT // _PARTS), _follow)
    _report(f"mutated, part {part}", SEED, outcome)
    assert not findings, _told(findings)
    # Both sides are tried: mutations that can be read, and ones that cannot for many reasons.
    assert outcome.read > COUNT // _PARTS // 100
    assert len(outcome.reasons) > 50


def test_every_beginning_of_a_file():
    files = seed_files()[:: max(len(seed_files()) // 40, 1)]
    outcome, findings = run(data[:end] for data in files for end in range(len(data)))
    _report("cut short", 0, outcome)
    assert not findings, _told(findings)
    assert not outcome.read


def _headers() -> st.SearchStrategy[bytes]:
    return st.sampled_from([b"", *sorted({data[:12] for data in seed_files()})])


@given(st.deferred(_headers), st.binary(max_size=300))
def test_any_bytes(header: bytes, rest: bytes):
    outcome, findings = run(iter([header + rest]))
    assert not findings, _told(findings)
    assert outcome.read + outcome.refused == 1
