"""Products on one thread each while blocks have threads of their own, and the number put back."""

import threading

import numpy as np
import pytest
from cpu_programs import KernelMemory, gemm, tensor_arguments

from tilewright.backends.cpu import blas


@pytest.fixture
def library():
    found = blas._library()
    if found is None:
        pytest.skip("NumPy has no OpenBLAS of its own here")
    return found


def test_the_number_is_put_back(library):
    before = library.get()
    assert blas.can_limit()
    with blas.one_thread_each():
        assert library.get() == 1
        with blas.one_thread_each():
            assert library.get() == 1
        assert library.get() == 1
    assert library.get() == before
    with pytest.raises(ZeroDivisionError), blas.one_thread_each():
        raise ZeroDivisionError
    assert library.get() == before


def test_uses_may_overlap(library):
    before = library.get()
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with blas.one_thread_each():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    with blas.one_thread_each():
        thread.start()
        inside.wait()
    assert library.get() == 1
    leave.set()
    thread.join()
    assert library.get() == before


def test_without_the_library_nothing_changes(monkeypatch):
    monkeypatch.setattr(blas, "_library", lambda: None)
    assert not blas.can_limit()
    with blas.one_thread_each():
        pass


def test_other_libraries_are_left_alone(tmp_path):
    assert blas._functions(tmp_path / "nothing.so") is None
    (tmp_path / "libopenblas.so").write_bytes(b"no library")
    assert blas._functions(tmp_path / "libopenblas.so") is None


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_that_multiply_agree_on_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2))
    c = np.zeros_like(a)
    arguments = [number for array in (c, a, b) for number in tensor_arguments(array)]
    kernel = gemm(tile=(64, 64, 32))
    kernel.run(
        (16, 1, 1), [*arguments, 4, 8], [KernelMemory.of(x) for x in (a, b, c)], threads=threads
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
