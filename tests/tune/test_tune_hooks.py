"""What the tuner needs of kernels and operations: reports, programs, a forced choice."""

import pickle

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, Ref, ReportForm, f16, f32, i32
from tilewright.dims import B, M, N
from tilewright.tune import Config, chosen, forcing, key_of


@tw.kernel
def picked(z: Mut[f32, B], x: Ref[f32, N], places: Ref[i32, M]) -> None:
    at = places.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[at])


def test_a_report_of_another_form_is_another_kernel_that_computes_the_same():
    x, places = np.arange(8, dtype=np.float32), np.array([1, 0], np.int32)
    for form in ReportForm:
        kernel = Config.of(report=form).applied_to(picked)
        assert kernel.options.report is form
        z = tw.zeros((8,), f32, device="cpu")
        ours, where = tw.from_numpy(x, device="cpu"), tw.from_numpy(places, device="cpu")
        kernel(z.partition(4), ours, where).sync()
        np.testing.assert_array_equal(z.numpy(), np.roll(x, 4))
    assert picked.options.report is None
    assert picked.with_report(None).with_hints(occupancy=2).options == picked.options


def test_a_kernel_with_another_report_is_pickled_with_it():
    again = pickle.loads(pickle.dumps(picked.with_report(ReportForm.AUDIT).with_hints(occupancy=2)))
    assert again.options.report is ReportForm.AUDIT
    assert again.hints.general.occupancy == 2
    assert again.source is picked.source


def test_what_an_operation_has_assembled_is_known_while_it_is_built():
    x, places = tw.meta((8,), f32, target="cpu"), tw.meta((2,), i32, target="cpu")
    op = picked(tw.meta((8,), f32, target="cpu").partition(4), x, places)
    (program,) = op.programs
    assert program.result().resources() == ()
    both = tw.zip(op, picked(tw.meta((8,), f32, target="cpu").partition(4), x, places))
    assert len(both.programs) == 2
    both.close()
    assert both.programs == ()
    assert tw.value(3).programs == ()


def test_resources_come_from_the_cubin():
    z, x = tw.meta((8,), f32, target="sm_90"), tw.meta((8,), f32, target="sm_90")
    op = picked(z.partition(4), x, tw.meta((2,), i32, target="sm_90"))
    try:
        (program,) = op.programs
        (found,) = program.result().resources()
    except tw.ToolchainError as error:
        pytest.skip(str(error))
    finally:
        op.close()
    assert found.kernel == "picked"
    assert found.registers > 0
    assert found.stack_bytes == 0


def test_a_forced_configuration_is_chosen_whatever_the_key_and_only_inside():
    key, one, other = key_of(f16, (1,)), Config.of(BM=1), Config.of(BM=2)
    with forcing("of a test", one):
        assert chosen("of a test", key, "sm_90") is one
        with forcing("of a test", other), forcing("another", one):
            assert chosen("of a test", key, "cpu") is other
            assert chosen("another", key, "cpu") is one
        assert chosen("of a test", key, "sm_90") is one
        assert chosen("another", key, "cpu") is None
        with forcing("of a test", None):
            assert chosen("of a test", key, "sm_90") is None
    assert chosen("of a test", key, "cpu") is None
