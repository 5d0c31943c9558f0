"""Borrows of a built operation: held, refused to others, and given back."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import copy, operation, put, reads, updates, writes

from tilewright.errors import BorrowError, LaunchError, MovedError
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.ops.lifecycle import State


def nothing(*_):
    return None


@pytest.mark.usefixtures("device")
class TestMatrix:
    """Many readers, or one writer."""

    @pytest.mark.parametrize("held", [reads, writes, updates])
    @pytest.mark.parametrize("wanted", [reads, writes, updates])
    def test_pairs(self, held, wanted):
        z = tw.zeros(8)
        first = operation("first", nothing, held(z))
        if held is reads and wanted is reads:
            operation("second", nothing, wanted(z)).close()
        else:
            with pytest.raises(BorrowError, match=r"first, built at .*holds . for .*has not been"):
                operation("second", nothing, wanted(z))
        first.close()
        operation("second", nothing, wanted(z)).close()

    def test_message_names_both_operations_and_the_way_out(self):
        z = tw.zeros(8)
        op = put(z, 1, "add")
        with pytest.raises(BorrowError) as caught:
            z.numpy()
        text = str(caught.value)
        assert "add, built at " in text
        assert "runtime_doubles.py:" in text
        assert "holds z for writing and has not been run" in text
        assert "submit, sync or await it, or close it" in text
        assert "numpy() at " in text
        assert "test_order_borrows.py:" in text
        op.sync()
        assert z.numpy().tolist() == [1.0] * 8

    def test_reading_the_host_beside_a_built_reader_is_fine(self):
        x, z = tw.ones(4), tw.zeros(4)
        op = copy(z, x)
        assert x.numpy().tolist() == [1.0] * 4
        op.close()

    def test_submitted_conflicts_are_ordered_not_refused(self, device):
        z = tw.zeros(4)
        hold = device.stream.hold()
        ops = [put(z, value).submit() for value in range(5)]
        hold.release()
        assert z.numpy().tolist() == [4.0] * 4
        assert all(op.done for op in ops)

    def test_siblings_share_the_state_of_their_storage(self):
        z = tw.zeros((4, 4))
        flat, view = z.reshape(16), z[1:3]
        op = put(flat, 1)
        for sibling in (z, view, view[0]):
            with pytest.raises(BorrowError, match="holds z for writing"):
                put(sibling, 2)
        op.close()
        put(view, 3).sync()
        assert flat.numpy().reshape(4, 4).sum(1).tolist() == [0, 12, 12, 0]

    def test_disjoint_slices_are_written_at_the_same_time(self):
        z = tw.zeros((4, 6))
        quarters = [z[:2, :3], z[:2, 3:], z[2:, :3], z[2:, 3:]]
        ops = [put(quarter, value) for value, quarter in enumerate(quarters)]
        with pytest.raises(BorrowError):
            put(z[1:3, 2:4], 9)
        for op in ops:
            op.sync()
        assert z.numpy()[:, [0, 5]].tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]

    def test_refused_operation_holds_nothing(self):
        x, z = tw.zeros(4), tw.zeros(4)
        held = put(z, 1)
        with pytest.raises(BorrowError):
            operation("both", nothing, writes(x), reads(z))
        put(x, 2).sync()
        held.close()


@pytest.mark.usefixtures("device")
class TestInsideOneOperation:
    def test_written_and_read(self):
        z = tw.zeros(8)
        with pytest.raises(BorrowError, match=r"^z is written by this launch and also read by it"):
            operation("add", nothing, writes(z, "z"), reads(z, "x"))

    def test_written_twice(self):
        z = tw.zeros(8)
        with pytest.raises(BorrowError, match=r"^a is written by this launch and also written by"):
            operation("add", nothing, writes(z, "a"), writes(z, "b"))
        once = writes(z, "a")
        with pytest.raises(BorrowError, match="also written by it"):
            operation("add", nothing, once, once)

    def test_read_argument_first(self):
        z = tw.zeros(8)
        with pytest.raises(BorrowError, match=r"^z is written by .* read by it as x"):
            operation("add", nothing, reads(z, "x"), writes(z, "z"))

    def test_overlapping_slices(self):
        z = tw.zeros(8)
        with pytest.raises(BorrowError, match="slices that do not overlap"):
            operation("add", nothing, writes(z[:5]), reads(z[4:]))
        operation("add", nothing, writes(z[:5]), reads(z[5:])).close()

    def test_read_twice(self):
        x, z = tw.ones(4), tw.zeros(4)
        work = operation("add", lambda z, a, b: np.add(a, b, z), writes(z), reads(x), reads(x))
        work.sync()
        assert z.numpy().tolist() == [2.0] * 4

    def test_output_whose_elements_share_memory(self):
        z = tw.zeros(4)
        broadcast = tw.Tensor(z.storage, z.dtype, Layout((3, 4), (0, 1)))
        with pytest.raises(BorrowError, match=r"strides \(0, 1\) make elements share memory"):
            operation("add", nothing, writes(broadcast))
        operation("sum", nothing, reads(broadcast)).close()

    def test_two_devices(self, device):
        x, z = tw.ones(4, device="cpu:1"), tw.zeros(4)
        with pytest.raises(LaunchError, match=f"x lives on cpu:1, but copy runs on {device.name}"):
            copy(z, x)


@pytest.mark.usefixtures("device")
class TestStates:
    def test_runs_once(self):
        z = tw.zeros(4)
        op = put(z, 1)
        assert op.state is State.BUILT
        assert op.submit() is op
        with pytest.raises(LaunchError, match=r"operation put, .* was submitted already"):
            op.submit()
        (result,) = op.sync()
        assert result is z
        assert op.state is State.COMPLETED
        with pytest.raises(LaunchError, match="has handed its result over already"):
            op.sync()

    def test_closed(self):
        op = put(tw.zeros(4), 1)
        op.close()
        op.close()
        assert op.done
        for run in (op.submit, op.sync):
            with pytest.raises(LaunchError, match="was closed and cannot be run"):
                run()

    def test_closing_a_submitted_operation_changes_nothing(self):
        z = tw.zeros(4)
        op = put(z, 1).submit()
        op.close()
        assert op.sync() == (z,)

    def test_done_and_repr_never_wait(self, device):
        z = tw.zeros(4)
        hold = device.stream.hold()
        op = put(z, 1, "put")
        assert repr(op).startswith(f"<put on {device.name}, built at ")
        assert repr(op).endswith(": built>")
        assert not op.done
        op.submit()
        assert repr(op).endswith(": submitted>")
        assert not op.done
        assert "no bytes yet" not in repr(z)
        hold.release()
        op.sync()
        assert op.done
        assert repr(op).endswith(": completed>")

    def test_other_device_stream(self):
        op, elsewhere = put(tw.zeros(4), 1), tw.Device("cpu:1").new_stream()
        with pytest.raises(LaunchError, match="cannot be submitted to a stream of cpu:1"):
            op.submit(elsewhere)
        op.sync()

    def test_compile_runs_before_submission_and_may_fail(self):
        z = tw.zeros(4)

        class Refusing:
            def compile(self):
                raise LaunchError("no such target")

            def enqueue(self, stream):
                raise AssertionError("never")

        op = tw.make_operation("k", z.device, (writes(z),), Refusing(), z)
        with pytest.raises(LaunchError, match="no such target"):
            op.compile()
        assert op.state is State.BUILT
        with pytest.raises(LaunchError, match="no such target"):
            op.submit()
        assert op.state is State.FAILED
        with pytest.raises(LaunchError, match="no such target"):
            op.sync()
        put(z, 1).sync()

    def test_dropped(self):
        z = tw.zeros(4)
        with pytest.warns(RuntimeWarning, match=r"operation put, built at .* was never run"):
            put(z, 1)
        put(z, 2).sync()
        assert z.numpy()[0] == 2

    def test_dropped_after_submission_says_nothing(self, device):
        z = tw.zeros(4)
        hold = device.stream.hold()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            put(z, 3).submit()
            gc.collect()
        hold.release()
        assert z.numpy()[0] == 3

    def test_interrupted_enqueue_leaves_nothing_held(self):
        z = tw.zeros(4)

        class Interrupted:
            def enqueue(self, stream):
                raise KeyboardInterrupt

        op = tw.make_operation("k", z.device, (writes(z),), Interrupted(), z)
        with pytest.raises(KeyboardInterrupt):
            op.submit()
        if z.device.kind == "cpu":  # where it is known that nothing was put
            assert z.numpy()[0] == 0
        else:
            with pytest.raises(LaunchError, match="interrupted"):
                z.numpy()
        with pytest.raises(LaunchError, match="was given up, as its submission was interrupted"):
            op.sync()
        put(z, 1).sync()
        assert z.numpy()[0] == 1


@pytest.mark.usefixtures("device")
class TestMove:
    def test_old_handle_is_refused_everywhere(self):
        x = tw.ones(4)
        y = tw.move(x)
        uses = [
            lambda: x.numpy(),
            lambda: x.shape,
            lambda: x[1:],
            lambda: tw.move(x),
            lambda: len(x),
        ]
        uses += [lambda: operation("k", nothing, reads(x)), lambda: x.partition(2)]
        for use in uses:
            with pytest.raises(MovedError, match=r"moved away at .*test_order_borrows.py:\d+"):
                use()
        assert "moved away" in repr(x)
        assert isinstance(x, tw.Tensor)
        assert y.numpy().tolist() == [1.0] * 4

    def test_only_tensors_move(self):
        with pytest.raises(LaunchError, match="takes a tensor, not int"):
            tw.move(3)
