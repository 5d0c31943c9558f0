"""Random safe kernels on the CPU device, held against their own source run by Python.

Nothing undefined is ever reported and no two blocks meet; the outputs are Python's; and an index
that leaves its axis, or a zero divisor, is refused or reported, and only then.
"""

import importlib.util
import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_meaning import DType, Mapped, Mut, Outside, Ref, Tile, run_blocks
from random_kernels import TILE, random_kernel

import tilewright as tw

HEAD = """from __future__ import annotations
import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, bool_, i8, i32, i64, u8, u32
from tilewright.dims import B, K, M, N
"""
FORMS = ("", "", "(report=tw.ReportForm.IN_PLACE)", "(report=tw.ReportForm.AUDIT)")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def load_kernel(folder, source):
    """The kernel of a source text, from a file of its own."""
    name = f"random_kernel_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(HEAD + source.replace("from __future__ import annotations", ""))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def integers(random, count, low=-50, high=50):
    return np.array([random.randint(low, high) for _ in range(count)], np.int32)


class Launch:
    """The arguments of one launch, for Python and for the device."""

    def __init__(self, random, *, walked):
        n, m = random.choice((0, 1, 3, 4, 5, 8, 11, 16)), random.choice((1, 4, 7, 8, 13))
        self.walked, self.blocks = walked, random.choice((1, 2, 3))
        self.output = integers(random, random.choice((1, 2, 4, 5, 8, 11)))
        self.inputs = {
            "x": integers(random, n), "y": integers(random, m),
            "m": integers(random, n * m).reshape(n, m),
            "ids": np.array([random.choice((0, 1, 3, -1, 2**31 - 1, -(2**31)))], np.int32),
        }  # fmt: skip
        self.scalars = {
            "a": np.int32(random.choice((0, 1, 2, -1, 3, 5, 2**31 - 1, -(2**31)))),
            "b": np.int32(random.randint(-3, 6)), "flag": np.bool_(random.random() < 0.5),
            "u": np.uint32(random.choice((0, 1, 2, 5, 2**31, 2**32 - 1))),
            "w": np.int64(random.choice((0, 1, -1, 4, 2**40, -(2**63), 2**63 - 1))),
        }  # fmt: skip
        self.constant = random.choice((0, 1, 2, 5))

    @property
    def tiles(self):
        return -(-len(self.output) // TILE)

    def expected(self, source):
        """What Python leaves in the output, or None if it stopped."""
        output = self.output.copy()
        count = min(self.blocks, self.tiles) if self.walked else self.tiles

        def arguments(block):
            z = (
                Mapped(output, (TILE,), *block, count)
                if self.walked
                else Mut(output, (TILE,), block)
            )
            scalars = {name: Tile(value) for name, value in self.scalars.items()}
            inputs = {name: Ref(array) for name, array in self.inputs.items()}
            return {"z": z, **inputs, **scalars, "C": self.constant}

        i32 = DType(np.int32)
        dims = {"B": TILE, "N": i32(len(self.inputs["x"])), "M": i32(len(self.inputs["y"]))}
        try:
            run_blocks(source, "kernel", (count,), dims, arguments)
        except (Outside, ZeroDivisionError):
            return None
        return output

    def run(self, kernel):
        """What the device leaves in the output."""
        tensor = tw.from_numpy(self.output)
        cut = tensor.partition(TILE)
        z = cut.persistent(blocks=self.blocks) if self.walked else cut
        inputs = [tw.from_numpy(self.inputs[name]) for name in ("x", "y", "m", "ids")]
        scalars = [self.scalars[name].item() for name in ("a", "b", "u", "w", "flag")]
        kernel(z, *inputs, *scalars, C=self.constant).sync()
        return tensor.numpy()


@given(random=st.randoms(use_true_random=False), walked=st.booleans(), form=st.sampled_from(FORMS))
def test_random_kernels_mean_what_python_means(folder, random: Random, walked, form):
    source = random_kernel(random, walked=walked)
    kernel = load_kernel(folder, source.replace("@tw.kernel", f"@tw.kernel{form}"))
    for _ in range(3):
        launch = Launch(random, walked=walked)
        expected = launch.expected(source)
        try:
            got = launch.run(kernel)
        except tw.UndefinedBehaviourError:
            raise
        except tw.CompileError as error:
            # Certainly wrong if it is ever reached, or a name that one path does not set.
            assert "error[bounds]" in str(error) or "error[names]" in str(error)  # noqa: PT017
            return
        except tw.KernelFailure:
            assert expected is None
        except tw.LaunchError as error:
            # It would fail, or there is nothing that a wrong index could be brought back to.
            assert expected is None or "axis is empty" in str(error)  # noqa: PT017
        else:
            assert expected is not None, "a wrong index was neither refused nor reported"
            assert got.tolist() == expected.tolist()
