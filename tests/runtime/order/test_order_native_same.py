"""The host in C and in Python: the same random programs, the same driver calls and refusals."""

import os
from pathlib import Path

import pytest
from compare_trees import MODELS, first_difference, run

from tilewright import native

TREE = str(Path(__file__).parents[3])
SEED = int(os.environ.get("MODEL_SEED", "71"))
PROGRAMS = int(os.environ.get("MODEL_COUNT", "1000")) // 250


@pytest.mark.parametrize("model", MODELS)
def test_both_have_one_trace(model, monkeypatch):
    if native.EXTENSION is None:
        pytest.skip(f"launches run in Python: {native.WHY_NOT}")
    seeds, traces = range(SEED, SEED + PROGRAMS), []
    for value in ("0", "1"):
        monkeypatch.setenv("TILEWRIGHT_NATIVE", value)
        traces.append(run(TREE, model, seeds, "--whole"))
    assert len(traces[0]) > 100 * PROGRAMS
    assert traces[0] == traces[1], first_difference(*traces)
