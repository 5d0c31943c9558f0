"""Search spaces: axes, constraints, samples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import ReportForm, TuneError
from tilewright.tune import Config, Space

SPACE = Space(
    BM=(64, 128), BN=(64, 128, 256), num_ctas=(1, 2), where=lambda c: c["BM"] * c["BN"] <= 1 << 14
)


def test_combinations_in_the_order_of_the_axes():
    assert SPACE.size == 12
    assert len(SPACE) == 10
    assert list(SPACE)[:3] == [
        Config.of(BM=64, BN=64, num_ctas=1),
        Config.of(BM=64, BN=64, num_ctas=2),
        Config.of(BM=64, BN=128, num_ctas=1),
    ]
    assert SPACE.first() == Config.of(BM=64, BN=64, num_ctas=1)
    assert Config.of(BM=128, BN=256, num_ctas=1) not in SPACE
    assert Config.of(BM=128, BN=128, num_ctas=1) in SPACE


def test_settings_are_axes_too():
    space = Space(group=((8, 1), (4, 1)), blocks=(None, 66), report=tuple(ReportForm))
    assert len(space) == 16
    assert {config["report"] for config in space} == set(ReportForm)


def test_joined_spaces_are_searched_one_after_the_other_and_each_configuration_once():
    joined = SPACE | Space(BM=(64, 32), BN=(64,), num_ctas=(1,)) | Space(SPLIT=(2,))
    assert joined.size == 12 + 2 + 1
    assert len(joined) == 10 + 1 + 1
    assert list(joined)[-2:] == [Config.of(BM=32, BN=64, num_ctas=1), Config.of(SPLIT=2)]


def test_a_good_one_and_its_neighbours_differ_in_one_value():
    center = Config.of(BM=128, BN=64, occupancy=2)
    near = Space.around(center, BM=(64, 256), occupancy=(None,), group=((8, 1),))
    assert near.size == 5
    assert list(near) == [
        center,
        Config.of(BM=64, BN=64, occupancy=2),
        Config.of(BM=256, BN=64, occupancy=2),
        Config.of(BM=128, BN=64),
        Config.of(BM=128, BN=64, occupancy=2, group=(8, 1)),
    ]
    assert near.first() is center
    assert len(near | Space.around(center, BN=(64, 128))) == 6, "each once"
    assert repr(near | SPACE).startswith("Space.around(BM=128 BN=64 occupancy=2, BM=(64, 256), ")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 5))
def test_samples(count, seed):
    drawn = SPACE.sample(count, seed=seed)
    assert len(drawn) == min(count, len(SPACE))
    assert drawn[0] == SPACE.first()
    assert list(drawn) == [config for config in SPACE if config in drawn]
    assert drawn == SPACE.sample(count, seed=seed)


def test_an_empty_space_has_the_one_configuration_that_sets_nothing():
    assert list(Space()) == [Config()]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Space(BM=128),
            "the axis `BM` is a tuple of the values to try, not 128: for one value write "
            "`BM=(128,)`",
        ),
        (lambda: Space(BM=()), "the axis `BM` has no values"),
        (lambda: Space.around(Config(), BM=()), "the axis `BM` has no values"),
        (lambda: Space(BM=(1, 2, 1)), "the axis `BM` has a value twice: (1, 2, 1)"),
        (lambda: Space(occupancy=(0,)), "the hint `occupancy` is 1 to 32, not 0"),
        (
            lambda: Space(BM=(1, 2), where=lambda _: False).first(),
            "no combination of the axes passes where=, so there is nothing to choose from: "
            "Space(BM=(1, 2))",
        ),
        (lambda: SPACE.sample(0), "a sample has at least one configuration, not 0"),
    ],
)
def test_spaces_that_are_refused(make, message):
    with pytest.raises(TuneError) as refusal:
        make()
    assert str(refusal.value) == message
