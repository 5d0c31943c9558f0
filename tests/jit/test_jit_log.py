"""What the log says of kernels: compiled, assembled, found; and nothing unless somebody listens."""

import re

import pytest
from test_jit_disk_cache import add, build, counted, folder

__all__ = ["counted", "folder"]  # fixtures


def told(caplog):
    messages = (record.getMessage() for record in caplog.records)
    return [re.sub(r"in [0-9.]+ ms$", "in … ms", message) for message in messages]


@pytest.mark.usefixtures("folder", "counted")
def test_what_was_done_is_said(caplog):
    caplog.set_level("DEBUG", "tilewright")
    what = "tilewright: `add` specialised for z: f32[128], x: f32[N] on"
    build(add)
    steps = ("not on disk", "compiled", "assembled")
    assert told(caplog) == [f"{what} sm_90: {done} in … ms" for done in steps]
    caplog.clear()
    build(add)
    assert told(caplog) == [f"{what} sm_90: found on disk in … ms"]
    caplog.clear()
    build(add, target="cpu")
    assert told(caplog) == [f"{what} cpu: compiled in … ms"]
    caplog.set_level("INFO", "tilewright")
    caplog.clear()
    build(add, target="cpu")
    assert told(caplog) == []
