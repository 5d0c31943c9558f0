"""Many built operations that read one tensor: each is built and released in constant time."""

import pytest
import runtime_names as tw
from runtime_doubles import NoWork, reads, writes

from tilewright.dtypes import f32
from tilewright.errors import BorrowError
from tilewright.runtime.order.borrow import Borrow


def test_readers_do_not_look_at_each_other(device, monkeypatch):
    """A reader is compared with writers alone, however many readers there are."""
    asked = []
    against = Borrow.held_against

    def held_against(self, *args, **kwargs):
        asked.append(self)
        return against(self, *args, **kwargs)

    x = tw.zeros((4,), f32)
    monkeypatch.setattr(Borrow, "held_against", held_against)
    outputs = [tw.zeros((4,), f32) for _ in range(50)]
    built = [
        tw.make_operation("read", device, (writes(z), reads(x)), NoWork(), None) for z in outputs
    ]
    assert len(asked) <= 2, "the second reader finds the first one alone"
    with pytest.raises(BorrowError, match="holds"):
        tw.make_operation("write", device, (writes(x),), NoWork(), None)
    for operation in built:
        operation.sync()
    assert x.storage.timeline.held is None
    tw.make_operation("write", device, (writes(x),), NoWork(), None).sync()
