"""The file that pins where checks are settled, and how a run is held against it."""

from types import SimpleNamespace

import placement_ratchet
import pytest
from placement_ratchet import Ratchet, counts_of, is_worse, pinned_counts, reach, stale_names, worst

from tilewright.check.ledger import Counts


def test_every_pinned_kernel_is_still_there():
    gone = stale_names(set(pinned_counts()))
    assert gone == set(), "`pytest --update-placement` forgets what is gone"


def test_our_own_kernels_have_no_check_inside():
    own = {
        name: counts_of(far)
        for name, far in pinned_counts().items()
        if name[0].startswith(("examples/", "src/tilewright/kernels/"))
    }
    assert {name for name, counts in own.items() if counts.hoisted or counts.in_place} == set()


@pytest.mark.parametrize(
    ("now", "before", "worse"),
    [
        (Counts(2, 1, 0, 0), Counts(3, 0, 0, 0), True),
        (Counts(3, 0, 0, 0), Counts(2, 1, 0, 0), False),
        (Counts(0, 0, 0, 1), Counts(0, 0, 1, 0), True),
        (Counts(0, 0, 1, 0), Counts(0, 0, 0, 1), False),
        (Counts(0, 0, 1, 0), Counts(0, 1, 0, 0), True),
        (Counts(9, 1, 1, 1), Counts(1, 1, 1, 1), False),
        (Counts(1, 1, 1, 1), Counts(1, 1, 1, 1), False),
    ],
)
def test_a_check_that_moves_towards_the_kernel_is_worse(now, before, worse):
    assert is_worse(reach(now), reach(before)) is worse
    assert counts_of(reach(now)) == now


def test_the_worst_of_two_specialisations_covers_both():
    one, other = Counts(0, 3, 0, 0), Counts(1, 0, 0, 1)
    both = worst(reach(one), reach(other))
    assert not is_worse(reach(one), both)
    assert not is_worse(reach(other), both)
    assert counts_of(both) == Counts(0, 2, 0, 1)


def kernel(name, file="tests/some_kernels.py"):
    file = placement_ratchet.ROOT / file
    source = SimpleNamespace(file=SimpleNamespace(path=str(file)))
    return SimpleNamespace(source=source, __qualname__=f"test.<locals>.{name}")


@pytest.fixture
def ratchet(request, monkeypatch):
    def make(**options):
        config = SimpleNamespace(getoption=lambda name: options.get(name.strip("-"), False))
        return Ratchet(config)

    pinned = {("tests/some_kernels.py", "test.known"): reach(Counts(1, 1, 0, 0))}
    monkeypatch.setattr(placement_ratchet, "pinned_counts", lambda: pinned)
    return make


def test_a_run_is_held_against_the_file(ratchet):
    run = ratchet()
    run.see(kernel("known"), Counts(2, 0, 0, 0))
    run.see(kernel("new"), Counts(0, 0, 0, 4))
    assert run.problems == []
    run.see(kernel("known"), Counts(1, 0, 1, 0))
    (problem,) = run.problems
    assert "tests/some_kernels.py::test.known have come closer" in problem


def test_a_strict_run_asks_for_new_kernels(ratchet):
    run = ratchet(**{"strict-placement": True})
    run.see(kernel("new"), Counts(1, 0, 0, 0))
    (problem,) = run.problems
    assert "test.new is not pinned" in problem


def test_an_update_complains_of_nothing(ratchet):
    run = ratchet(**{"update-placement": True})
    run.see(kernel("known"), Counts(0, 0, 0, 9))
    assert run.problems == []
    assert counts_of(run.seen["tests/some_kernels.py", "test.known"]) == Counts(0, 0, 0, 9)


def test_a_strict_run_asks_for_nothing_that_only_a_gpu_or_a_test_makes_up(ratchet):
    run = ratchet(**{"strict-placement": True})
    run.see(kernel("new", "tests/gpu/some_kernels.py"), Counts(1, 0, 0, 0))
    run.see(kernel("new", "/elsewhere/made_up.py"), Counts(1, 0, 0, 0))
    assert run.problems == []


def test_two_lines_that_a_merge_has_left_count_as_the_worse(monkeypatch, tmp_path):
    file = tmp_path / "placement.toml"
    file.write_text('# kernels\n"a.py::k" = [2, 0, 0, 0]\n"a.py::k" = [1, 1, 0, 0]\n')
    monkeypatch.setattr(placement_ratchet, "PINNED", file)
    found = placement_ratchet.pinned_counts.__wrapped__()
    assert found == {("a.py", "k"): reach(Counts(1, 1, 0, 0))}
