"""Operations that need the results of other operations before they can be built.

`add(z.partition(128), op, y)` is `op.then(lambda x: add(z.partition(128), x, y))`: the operations
among the arguments are taken and run first, in order and on one stream, and the function is called
with their results. An operation given twice runs once, and both arguments get its result. Borrows
of the other arguments begin when the function is called, as in any step of a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from tilewright.errors import LaunchError, TilewrightError
from tilewright.runtime.ops.call_site import user_site
from tilewright.runtime.ops.chain import Chain, zip_operations
from tilewright.runtime.ops.chain_steps import How, Step, choose_one
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["defer", "has_operations"]

T = TypeVar("T")


def has_operations(values: Iterable[Any]) -> bool:
    """Whether one of the arguments of a call is an operation."""
    return any(isinstance(value, DeviceOp) for value in values)


def defer(
    label: str,
    arguments: Mapping[str, Any],
    build: Callable[[tuple[Any, ...]], DeviceOp[T]],
    *,
    count: int | None = None,
    tuples: Collection[str] = (),
) -> DeviceOp[T]:
    """The operation that `build` gives for the arguments, after the operations among them have run.

    At least one argument is an operation. `count` is the number of results, if it is known;
    `tuples` are the arguments for which an operation may give a tuple.
    """
    waiting = {name: v for name, v in arguments.items() if isinstance(v, DeviceOp)}
    single = [name for name in waiting if name not in tuples]
    for name in single:
        operation = waiting[name]
        number = operation.known_count()
        if number is not None:  # the name of an operation takes longer than running it
            _refuse_several(number, f"{operation.name} given for `{name}` of {label},")
    operations = list({id(operation): operation for operation in waiting.values()}.values())
    is_zip = len(operations) > 1
    source = zip_operations(*operations, label=label) if is_zip else operations[0]
    places = {id(operation): place for place, operation in enumerate(operations)}
    where = {name: places[id(operation)] for name, operation in waiting.items()}
    plain = {name: None if name in waiting else value for name, value in arguments.items()}
    site = user_site(2)

    def step(given: Any) -> DeviceOp[T]:
        results = given if is_zip else (given,)
        values = plain | {name: results[place] for name, place in where.items()}
        try:
            for name in single:
                got = values[name]
                number = len(got) if isinstance(got, tuple) else None
                _refuse_several(number, f"the operation given for `{name}` of {label}")
            return build(tuple(values.values()))
        except TilewrightError as error:
            error.add_note(f"{label} was called at {site}, with operations among its arguments")
            raise

    source.take()
    return Chain(source, [Step(How.THEN, step)], label, count)


def _refuse_several(number: int | None, what: str) -> None:
    if number is not None:
        raise LaunchError(choose_one(what, number))
