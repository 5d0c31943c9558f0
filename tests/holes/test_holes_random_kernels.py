"""Random safe kernels on the CPU device, held against their own source run by Python.

Nothing undefined is ever reported and no two blocks meet; the outputs are Python's; and an index
that leaves its axis, or a zero divisor, is refused or reported, and only then: with proofs, and
with every check forced into the kernel.
"""

from contextlib import nullcontext
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_kernels import Output, random_kernel
from random_launches import Launch, load_kernel

import tilewright as tw
from tilewright.jit.compile.compiled import force_checks

FORMS = ("", "", "(report=tw.ReportForm.IN_PLACE)", "(report=tw.ReportForm.AUDIT)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.filterwarnings("ignore::tilewright.errors.PaddingWarning")  # Python has padding too
@given(
    random=st.randoms(use_true_random=False),
    output=st.sampled_from(Output),
    form=st.sampled_from(FORMS),
    forced=st.booleans(),
)
def test_random_kernels_mean_what_python_means(folder, random: Random, output, form, forced):
    source = random_kernel(random, output)
    kernel = load_kernel(folder, source.replace("@tw.kernel", f"@tw.kernel{form}"))
    with force_checks() if forced else nullcontext():
        for _ in range(3):
            launch = Launch(random, output)
            if not means_the_same(kernel, launch, launch.expected(source)):
                return


def means_the_same(kernel, launch, expected):
    """Hold one launch against Python; False if the kernel is refused whatever its arguments."""
    try:
        got = launch.run(kernel)
    except tw.UndefinedBehaviourError:
        raise
    except tw.CompileError as error:
        # Certainly wrong if it is ever reached, or a name that one path does not set.
        assert "error[bounds]" in str(error) or "error[names]" in str(error)  # noqa: PT017
        return False
    except tw.KernelFailure:
        assert expected is None
    except tw.LaunchError as error:
        # It would fail, or there is nothing that a wrong index could be brought back to.
        text = str(error)
        assert expected is None or "axis is empty" in text or "is clipped to it" in text
    else:
        assert expected is not None, "a wrong index was neither refused nor reported"
        assert got == expected
    return True
