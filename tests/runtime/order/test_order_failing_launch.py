"""One launch whose check fails, and all who must learn of it: on the CPU, and on the GPU.

Behind the failing launch stand three more operations: two that use what it wrote, directly and
through the other, and one that does not.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass

import numpy as np
import pytest

import tilewright as tw
from tilewright import Mut, OutOfBoundsError, Ref, f32, i32
from tilewright.dims import B, M, N

X = np.arange(8, dtype=np.float32)


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    z.store(x.partition(B)[i])


@tw.kernel
def double(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + x.load_like(z))


def indices(*ids: int) -> tw.Tensor:
    return tw.from_numpy(np.array(ids, np.int32))


@dataclass
class Tensors:
    """Tensors of the four operations."""

    x: tw.Tensor
    ids: tw.Tensor
    picked: tw.Tensor
    behind: tw.Tensor
    further: tw.Tensor
    apart: tw.Tensor

    def operations(self):
        """Each built when the one before it has been dealt with: that gives its borrow back."""
        yield pick(self.picked.partition(4), self.x, self.ids)
        yield double(self.behind.partition(4), self.picked)
        yield double(self.further.partition(4), self.behind)
        yield double(self.apart.partition(4), self.x)

    def submit_all(self):
        """All four, before the first one has run."""
        streams = {self.x.device.stream, *(self.x.device.policy.next_stream() for _ in range(4))}
        holds = [stream.hold() for stream in streams]
        submitted = [operation.submit() for operation in self.operations()]
        for hold in holds:
            hold.release()
        return submitted

    def check_contents(self, *, failed: bool) -> None:
        assert self.apart.numpy().tolist() == (2 * X).tolist()
        for tensor, factor in ((self.picked, 1), (self.behind, 2), (self.further, 4)):
            if failed:
                with fails():
                    tensor.numpy()
            else:
                assert tensor.numpy().tolist() == (factor * X).tolist()


@pytest.fixture
def tensors(each_device):
    # A GPU loads a kernel when its streams are done, and some of them will be held.
    pick(tw.zeros(8).partition(4), tw.from_numpy(X), indices(0, 1)).sync()
    double(tw.zeros(8).partition(4), tw.from_numpy(X)).sync()
    return Tensors(tw.from_numpy(X), indices(0, 9), *(tw.zeros(8) for _ in range(4)))


def fails(index: int = 9):
    return pytest.raises(OutOfBoundsError, match=f"index {index} is outside axis 0 of `x`")


def same_failure(operations, error):
    """Every one of these raises that very exception."""
    for operation in operations:
        with fails() as caught:
            operation.sync()
        assert caught.value is error


def test_queued_behind_it(tensors):
    first, *others = tensors.submit_all()
    with fails() as caught:
        first.sync()
    same_failure(others[:2], caught.value)
    others[2].sync()
    tensors.check_contents(failed=True)


def test_in_a_chain(tensors):
    made = tensors.operations()
    chain = next(made)
    for _ in range(3):
        chain = chain.then(lambda _: next(made))
    hold = tensors.x.device.stream.hold()
    chain.submit()
    hold.release()
    for _ in range(2):
        with fails():
            chain.sync()
    tensors.check_contents(failed=True)


def test_awaited(tensors):
    async def main():
        errors = []
        for operation in tensors.submit_all():
            try:
                await operation
            except OutOfBoundsError as error:
                errors.append(error)
        return errors

    errors = asyncio.run(main())
    assert len(errors) == 3
    assert len(set(map(id, errors))) == 1
    tensors.check_contents(failed=True)


def test_gathered(tensors):
    async def main():
        holds = [tensors.x.device.policy.next_stream().hold() for _ in range(4)]
        tasks = []
        for operation in tensors.operations():
            tasks.append(asyncio.ensure_future(operation))
            await asyncio.sleep(0)  # submitted, each on a stream of its own
        for hold in holds:
            hold.release()
        return await asyncio.gather(*tasks, return_exceptions=True)

    *failed, last = asyncio.run(main())
    assert len(set(map(id, failed))) == 1
    assert isinstance(failed[0], OutOfBoundsError)
    assert last[0].tensor is tensors.apart
    tensors.check_contents(failed=True)


def test_in_a_graph_replayed_ten_times(tensors):
    good = indices(0, 1)
    with tw.graph() as g:
        for operation in tensors.operations():
            g.record(operation)
    for turn in range(10):
        is_good = turn in (3, 8)
        ids = good if is_good else tensors.ids
        g.update(pick(tensors.picked.partition(4), tensors.x, ids))
        replay = g.launch().submit()
        tensors.check_contents(failed=not is_good)
        if not is_good:
            with fails():
                replay.sync()


def test_the_next_whole_write_clears_it(tensors):
    tensors.submit_all()
    tensors.check_contents(failed=True)
    with fails():
        double(tensors.behind.partition(4), tensors.picked)  # nothing new reads it
    pick(tensors.picked.partition(4), tensors.x, indices(0, 1)).submit()
    assert tensors.picked.numpy().tolist() == X.tolist()
    with fails():
        tensors.behind.numpy()
    double(tensors.behind.partition(4), tensors.picked).submit()
    double(tensors.further.partition(4), tensors.behind).submit()
    tensors.check_contents(failed=False)


@pytest.fixture
def records(each_device, monkeypatch):
    """Every failure record that is made for the device."""
    pool, made = each_device.backend._records, []
    make = pool.make_slots

    def noted():
        slots = list(make())
        made.extend(slots)
        return slots

    monkeypatch.setattr(pool, "make_slots", noted)
    return made


def test_five_thousand_in_a_row_lose_none_and_leak_no_record(each_device, records):
    x, z, first = tw.from_numpy(X), tw.zeros(4), 2  # 0 and 1 are tiles of x
    operations = []
    for number in range(first, first + 5000):
        operations.append(pick(z.partition(4), x, indices(number)).submit())
    for number, operation in enumerate(operations, start=first):
        with fails(number):
            operation.sync()
    assert not each_device.unseen
    del operation, operations
    _check_no_record_is_kept(each_device, records)


def test_failures_without_an_observer_are_remembered_to_the_end(each_device, records):
    x, z, ids = tw.from_numpy(X), tw.zeros(4), indices(9)
    for _ in range(500):
        pick(z.partition(4), x, ids).submit()
    each_device.stream.wait(each_device.stream.issued)
    assert len(each_device.unseen) == 500
    with fails():
        z.numpy()
    assert len(each_device.unseen) == 499
    each_device.unseen.clear()
    each_device.stream.failed.clear()
    double(z.partition(4), x[:4]).sync()
    _check_no_record_is_kept(each_device, records)


def _check_no_record_is_kept(device, made):
    """Every record that was ever made can be had again, and says that nothing has failed."""
    gc.collect()
    assert len(made) == device.backend._records._free.qsize()
    taken = [device.new_record() for _ in made]
    assert all(record.read() == (0,) * 16 for record in taken)
