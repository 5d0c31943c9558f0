"""Operations that need the results of other operations before they can be built.

`add(z.partition(128), op, y)` is `op.then(lambda x: add(z.partition(128), x, y))`: the operations
among the arguments are taken in and run first, in order and on one stream, and what is called is
called with their results. What was given twice runs once, and both places get its result. Borrows
of the other arguments begin when the call is made, as in any step of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tilewright.errors import LaunchError, TilewrightError
from tilewright.runtime.cut_results import choose_one
from tilewright.runtime.operation import Chain, DeviceOp, How, Step
from tilewright.runtime.zipping import zip_operations

__all__ = ["call_later", "defer", "has_operations", "require_single"]

T = TypeVar("T")


def has_operations(values: Iterable[Any]) -> bool:
    """Whether one of the arguments of a call is an operation."""
    return any(isinstance(value, DeviceOp) for value in values)


def require_single(name: str, value: Any) -> None:
    """Refuse an argument, called `name`, that stands for several results."""
    if isinstance(value, tuple):
        raise LaunchError(choose_one(f"the operation given for {name}", len(value)))
    number = value.known_count() if isinstance(value, DeviceOp) else None
    if number is not None:
        raise LaunchError(choose_one(f"{value.name} given for {name},", number))


def defer(
    label: str,
    values: tuple[Any, ...],
    build: Callable[[tuple[Any, ...]], DeviceOp[T]],
    count: int | None = None,
) -> DeviceOp[T]:
    """The operation that `build` gives for the arguments, once those that are operations have run.

    `count` is how many results it will have, if that is known. At least one is an operation.
    """
    places: dict[int, int] = {}  # of each operation, by identity, among the results
    operations: list[DeviceOp[Any]] = []
    for value in values:
        if isinstance(value, DeviceOp) and id(value) not in places:
            places[id(value)] = len(operations)
            operations.append(value)
    plain = tuple(None if isinstance(value, DeviceOp) else value for value in values)
    where = tuple(places.get(id(value)) for value in values)
    source = zip_operations(*operations, label=label)
    site = source.site

    def step(results: tuple[Any, ...]) -> DeviceOp[T]:
        given = zip(plain, where, strict=True)
        try:
            return build(tuple(value if at is None else results[at] for value, at in given))
        except TilewrightError as error:
            error.add_note(f"{label} was called at {site}, with operations among its arguments")
            raise

    return Deferred(source, step, count)


def call_later(label: str, function: Callable[..., DeviceOp[T]], **arguments: Any) -> DeviceOp[T]:
    """The operation that a function of ours gives, once the operations among these have run."""

    def build(values: tuple[Any, ...]) -> DeviceOp[T]:
        for name, value in zip(arguments, values, strict=True):
            require_single(f"`{name}` of {label}", value)
        return function(*values)

    for name, value in arguments.items():
        require_single(f"`{name}` of {label}", value)
    return defer(label, tuple(arguments.values()), build)


class Deferred(Chain[T]):
    """A call whose arguments are not all there yet."""

    __slots__ = ("_count",)

    def __init__(
        self,
        source: DeviceOp[tuple[Any, ...]],
        build: Callable[[tuple[Any, ...]], DeviceOp[T]],
        count: int | None,
    ) -> None:
        source.take()
        super().__init__(source, [Step(How.THEN, build)])
        self._count = count

    def known_count(self) -> int | None:
        """As many as the call will have."""
        return self._count
