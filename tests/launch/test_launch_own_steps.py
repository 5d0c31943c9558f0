"""Operations that would run themselves, were closed, or were refused: what is said of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import f32


def refuse(text):
    return pytest.raises(tw.LaunchError, match=re.escape(text))


def in_itself(make):
    """An operation of whose steps one gives something made of the operation itself."""
    kept = []
    kept.append(make(lambda _: kept[0]))
    return kept[0]


def cleared():
    return tw.fill(tw.ones((16,), f32), 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda itself: cleared().then(itself),
        lambda itself: cleared().then(lambda r: itself(r).map(lambda one: one)),
        lambda itself: cleared().then(lambda r: tw.zip(itself(r))),
        lambda itself: cleared().then(lambda _: cleared().then(itself)),
        lambda itself: tw.zip(cleared().then(itself), cleared()),
        lambda itself: tw.zip(cleared().then(itself)).map(lambda one: one),
        lambda itself: cleared().map(lambda r: itself(r).submit()),
        lambda itself: cleared().inspect(lambda r: itself(r).submit()),
    ],
)
def test_an_operation_that_gives_itself(make):
    operation = in_itself(make)
    text = r"is being submitted, and one of its own steps would run it: an operation runs once"
    for _ in range(2):
        with pytest.raises(tw.LaunchError, match=text):
            operation.sync()
    cleared().sync()


def test_a_shared_operation_that_gives_itself():
    operation = in_itself(lambda itself: cleared().then(itself).shared())
    with refuse("needs its own result"):
        operation.sync()


def test_a_closed_shared_operation_says_so():
    shared = cleared().shared()
    shared.close()
    for use in (
        shared.sync,
        shared.submit,
        lambda: shared.map(lambda one: one).sync(),
        lambda: tw.zip(shared, cleared()).sync(),
        lambda: tw.copy(tw.zeros((16,), f32), shared).sync(),
    ):
        with refuse("was closed and cannot be run"):
            use()


def test_an_operation_that_was_refused_says_so():
    array = np.zeros(4096, np.float32)
    with tw.device("cpu"):
        operation = tw.fill(tw.from_dlpack(array), 1)
        array.resize(2, refcheck=False)
        with pytest.raises(tw.BorrowError, match="has been moved or resized since"):
            operation.submit()
        with refuse("could not be submitted, and runs once: build another") as caught:
            operation.submit()
    assert isinstance(caught.value.__cause__, tw.BorrowError)
