"""Where a tensor was made is the user's line, whichever of our functions made it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import f16, f32, kernels

X = np.ones((8, 16), "f4")
MAKERS = {
    "empty": lambda: tw.empty((4,), f32),
    "empty, by a name": lambda: tw.empty(4, device="cpu"),
    "zeros": lambda: tw.zeros((4,), f32),
    "ones": lambda: tw.ones((4,), f32),
    "full": lambda: tw.full((4,), 2.0, f32),
    "arange": lambda: tw.arange(4, dtype=f32),
    "meta": lambda: tw.meta((4,)),
    "from_numpy": lambda: tw.from_numpy(X),
    "clone": lambda: tw.from_numpy(X).clone(),
    "astype": lambda: tw.from_numpy(X).astype(f16),
}


def _is_here(tensor: tw.Tensor) -> bool:
    return tensor.storage.site.code.co_filename == __file__


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_makers(make):
    made = make()
    assert made.storage.site.code is make.__code__


def test_a_function_of_the_library_called_again_and_again():
    x = tw.from_numpy(X)
    for _ in range(4):  # compiled, planned, remembered, found again
        made = kernels.softmax(x).sync()
        assert _is_here(made), made.storage.site
        assert made.storage.site.code.co_name.startswith("test_a_function_of_the_library")


def test_a_thread_that_begins_with_a_call_of_ours():
    made: list[tw.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(tw.empty((4,), f32)))
    thread.start()
    thread.join()
    assert _is_here(made[0])


def test_a_package_that_is_imported_through_a_link(tmp_path):
    (tmp_path / "linked").symlink_to(Path(tw.__file__).parents[1])
    text = "import tilewright as tw; made = tw.zeros(4); print(made.storage.site)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "linked")}
    command = [sys.executable, "-c", text]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == "<string>:1\n"
