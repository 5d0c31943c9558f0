"""Operations made of others: chains, which run functions of results, zips and shared operations."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device, current_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Tape
from tilewright.runtime.ops.call_site import CallSite, user_site
from tilewright.runtime.ops.chain_steps import How, Step
from tilewright.runtime.ops.inside_chains import Inside
from tilewright.runtime.ops.lifecycle import Ends, Gone, State, Steps, run_steps
from tilewright.runtime.ops.operation import DeviceOp, derived

__all__ = ["Chain", "Compound", "Shared", "ValueOp", "Zip", "value", "zip_operations"]


T = TypeVar("T")


class Compound(DeviceOp[T]):
    """An operation that consists of others and has no work of its own."""

    __slots__ = ("_ends", "_is_compiled", "_lock", "_site")

    def __init__(self, label: str, device: Device) -> None:
        super().__init__(label, device)
        self._site = user_site(3)  # outside the constructors
        self._ends = Ends()
        self._is_compiled = False
        self._lock = threading.RLock()  # held during the submission: other threads wait
        self._state = State.BUILT

    @property
    def site(self) -> CallSite:
        """The line that made it of others."""
        return self._site

    @property
    def ends(self) -> Ends:
        """The fences of its parts."""
        return self._ends

    @abstractmethod
    def parts(self) -> Iterable[DeviceOp[Any]]:
        """The operations that have not run yet, as far as they are known."""

    @abstractmethod
    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Yield the parts in order and combine their results."""

    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run the parts; after a failure the remaining ones release their borrows."""
        try:
            return (yield from self.run(stream, ends))
        except BaseException:
            self.give_back()
            raise

    def start(self, stream: Stream) -> None:
        """Put all parts on a stream, unless another thread has done so."""
        with self._lock:
            self.check_built()
            self._result = run_steps(self, stream, self._ends)
            self._state = State.SUBMITTED

    def compile(self) -> Self:
        """Compile all parts known so far."""
        if not self._is_compiled:
            for operation in _leaves(self):
                operation.compile()
            self._is_compiled = True
            self.note_compiled()
        return self

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs of the parts known so far."""
        return tuple(program for part in _leaves(self) for program in part.programs)

    def give_back(self) -> None:
        """Close every part that has not run."""
        for operation in _leaves(self):
            operation.abandon(LaunchError(f"{self.name} ended before it got there"))

    def __del__(self) -> None:
        # A compound that was refused by its constructor has no state yet.
        if getattr(self, "_state", None) is State.BUILT and any(_leaves(self)):
            self.warn_if_never_run()


def _leaves(compound: Compound[Any]) -> Iterator[DeviceOp[Any]]:
    """The single operations of a compound that have not run; without recursion."""
    open_: list[DeviceOp[Any]] = [*compound.parts()]
    while open_:
        operation = open_.pop()
        if isinstance(operation, Shared):
            continue  # other operations may use it
        if isinstance(operation, Compound):
            open_ += operation.parts()
        elif operation.state in (State.BUILT, State.TAKEN):
            yield operation


# --- one after the other --------------------------------------------------------------------------


_THEN, _MAP = How.THEN, How.MAP  # looking up members of an enumeration is slow
# Types of operations seen before: `isinstance` of an abstract class is slow.
_KINDS: set[type] = set()


class Chain(Compound[T]):
    """An operation and functions of its result, one after the other."""

    __slots__ = ("_known", "_source", "_todo")

    def __init__(
        self,
        source: DeviceOp[Any],
        todo: list[Step],
        label: str | None = None,
        known: int | None = None,
    ) -> None:
        super().__init__(label or source.label, source.device)
        self._source: DeviceOp[Any] | None = source
        self._todo = todo
        self._known = known  # number of results, if it is known

    def known_count(self) -> int | None:
        """The number of results, if the call that made the chain knows it."""
        return self._known

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """The first operation; those that the functions give are not known yet."""
        return () if self._source is None else (self._source,)

    @property
    def todo(self) -> list[Step]:
        """The steps after the first operation that have not run; their list may be changed."""
        return self._todo

    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run the first operation, and then the operation of each step."""
        source, todo, self._source, self._todo = self._source, self._todo, None, []
        if source is None:
            raise self._in_itself()
        result = yield source, ends
        inside = Inside(self, stream)
        for how, function in todo:
            made = inside.call(function, result)
            if how is _THEN:
                self._take_in(made)
                if made.is_single:
                    result = made.put_part(stream, ends)
                else:
                    result = yield made, ends
            elif how is _MAP:
                result = made
        done: T = result
        return done

    def _take_in(self, made: Any) -> None:
        if type(made) not in _KINDS and not isinstance(made, DeviceOp):
            raise LaunchError(
                f"a step of {self.name} gave {type(made).__name__}, and `then` runs an operation:"
                " use `map` for a function that gives a value"
            )
        if made.device is not self.device:
            made.close()
            raise LaunchError(
                f"a step of {self.name} gave an operation on {made.device.name}, but a chain runs"
                f" on one stream of {self.device.name}"
            )
        _KINDS.add(type(made))
        if made.is_single:
            made.check_built()  # it runs at once
        else:
            made.take()

    def _chained(self, step: Step) -> DeviceOp[Any]:
        # The new chain takes over the list, so the depth does not grow with the number of steps.
        was_built = self._state is State.BUILT
        try:
            self.take()
            assert self._source is not None, "a chain that is taken has not run, and has its source"
            self._todo.append(step)
            return Chain(self._source, self._todo)
        except BaseException:
            self._todo[-1:] = [one for one in self._todo[-1:] if one is not step]
            self._free_again(was_built)
            raise

    def check_built(self) -> None:
        """Refuse to run a chain twice, or as a step of itself."""
        super().check_built()
        if self._source is None:
            raise self._in_itself()

    def _in_itself(self) -> LaunchError:
        return LaunchError(
            f"{self.name} is being submitted, and one of its own steps would run it: an operation"
            " runs once, so let the step give another one"
        )


# --- more than one user ---------------------------------------------------------------------------


class Shared(Compound[T]):
    """An operation that runs once, on the stream of its first user; all users get its result."""

    __slots__ = ("_source",)

    def __init__(self, source: DeviceOp[T]) -> None:
        source.take()
        super().__init__(source.label, source.device)
        self._source: DeviceOp[T] | None = source

    def shared(self) -> Shared[T]:
        """The same operation."""
        return self

    def take(self) -> None:
        """Do nothing: several operations may use it."""

    def untake(self) -> None:
        """Do nothing: `take` changes nothing."""

    def submit(self, stream: Stream | None = None) -> Self:
        """Run it, if it has not run."""
        if self._state is State.BUILT:
            super().submit(stream)
        elif self._error is not None:
            raise self._error.with_traceback(None)
        self._check_run()
        return self

    def start(self, stream: Stream) -> None:
        """Run it, if it has not run; a refused submission is refused again."""
        run_steps(self, stream, Ends())

    def abandon(self, error: BaseException) -> None:
        """Do nothing: `run` has recorded the error."""

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """The operation itself."""
        return () if self._source is None else (self._source,)

    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Its steps; a graph refuses one that has not run, and leaves it unchanged."""
        if self._state is State.CLOSED:
            self.check_built()
        if isinstance(stream, Tape) and self._source is not None:
            raise LaunchError(
                f"{self.name} is shared and runs once, for all its users, and a graph runs many"
                " times: record an operation that is not shared"
            )
        return (yield from super().steps(stream, ends))

    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run the operation for the first user, and give its result to every user."""
        del stream
        with self._lock:
            if self._source is not None:
                source, self._source = self._source, None
                try:
                    self._result = yield source, self._ends
                    self._state = State.SUBMITTED
                except BaseException as error:  # noqa: BLE001 (raised below, to every user)
                    self._state, self._error = State.FAILED, error
            elif self._state is State.BUILT:
                raise LaunchError(f"{self.name} needs its own result")
        ends.include(self._ends)
        if self._error is not None:
            raise self._error
        return self.hand_over()

    def hand_over(self) -> T:
        """The result, any number of times."""
        assert not isinstance(self._result, Gone), "asked of one that has run"
        return self._result


derived.chain, derived.shared = Chain, Shared


# --- side by side, and values ---------------------------------------------------------------------


class Zip(Compound[tuple[Any, ...]]):
    """Several operations, one after the other on one stream; the result has an item for each."""

    __slots__ = ("_parts",)

    def __init__(
        self, parts: tuple[DeviceOp[Any], ...], device: Device, label: str = "zip"
    ) -> None:
        super().__init__(label, device)
        self._parts = parts

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """The operations, in order."""
        return self._parts

    def run(self, stream: Stream, ends: Ends) -> Steps[tuple[Any, ...]]:
        """Run all operations."""
        results = []
        for part in self._parts:
            results.append((yield part, ends))
        return tuple(results)

    def known_count(self) -> int | None:
        """One result for each operation."""
        return len(self._parts)


def zip_operations(*parts: Any, label: str = "zip") -> Zip:
    """Several operations as one: `tw.zip(a, b)` gives the pair of their results.

    A value among the parts is its own result.
    """
    operations = [part for part in parts if isinstance(part, DeviceOp)]
    if len(operations) < len(parts) and any(map(_has_operations, parts)):
        raise LaunchError(
            "the parts of a zip are given one by one, and this is a list of operations, which would"
            " not run: `tw.zip(*operations)`"
        )
    device = operations[0].device if operations else current_device()
    for other in operations:
        if other.device is not device:
            raise LaunchError(
                f"{other.name} runs on {other.device.name} and {operations[0].name} on"
                f" {device.name}: the parts of a zip run on one stream"
            )
    begun: list[DeviceOp[Any]] = []
    try:
        for operation in operations:
            if operation.state is State.BUILT:
                begun.append(operation)
            operation.take()
        made = tuple(
            part if isinstance(part, DeviceOp) else ValueOp(part, device) for part in parts
        )
        return Zip(made, device, label)
    except BaseException:
        for taken in begun:
            taken.untake()
        raise


def _has_operations(part: Any) -> bool:
    return isinstance(part, (list, tuple)) and any(isinstance(one, DeviceOp) for one in part)


class ValueOp(Compound[T]):
    """An operation whose result exists already."""

    __slots__ = ("_value",)

    def __init__(self, value: T, device: Device) -> None:
        super().__init__("value", device)
        self._value = value

    def parts(self) -> Iterable[DeviceOp[Any]]:
        """None."""
        return ()

    def run(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Run nothing."""
        del stream, ends
        yield from ()
        return self._value


def value(result: T, *, device: Device | None = None) -> DeviceOp[T]:
    """An operation that runs nothing and gives this result."""
    return ValueOp(result, device or current_device())
