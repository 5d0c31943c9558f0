"""`on_cpu`: inside it, `cuda.tile.launch` runs on the CPU, and torch's CUDA tensors live there.

A program that was written for a GPU asks torch for tensors on "cuda" and for its current stream.
Where torch is loaded, tensors are made on the CPU instead, and say that they are on a GPU if they
are asked; streams and events of torch do nothing, since a launch has ended when it returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import cuda.tile as ct

from tilewright.cutile.launching import BEHAVIOUR, Behaviour, launch

__all__ = ["on_cpu"]

_CAPABILITY = (10, 0)  # the first architecture that has everything of Tile IR


@contextmanager
def on_cpu(*, strict: bool = False, race_check: bool = False) -> Iterator[None]:
    """Let programs of cuTile Python run on the CPU: `ct.launch` and torch's "cuda" mean it.

    Names that were imported before, `from cuda.tile import launch`, keep their meaning: enter
    this first, or run the program by `tilewright cutile program.py`.
    """
    token = BEHAVIOUR.set(Behaviour(strict, race_check))
    try:
        with ExitStack() as stack:
            stack.enter_context(_replaced(ct, "launch", launch))
            torch = sys.modules.get("torch")
            if torch is not None:
                _pretend(torch, stack)
            yield
    finally:
        BEHAVIOUR.reset(token)


@contextmanager
def _replaced(owner: ModuleType, name: str, value: Any) -> Iterator[None]:
    """A name of a module with another meaning for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _pretend(torch: ModuleType, stack: ExitStack) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        """Streams and events have nothing to wait for."""

    stream = SimpleNamespace(cuda_stream=0, synchronize=nothing, wait_stream=nothing)
    stands_for: dict[str, Any] = {
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_capability": lambda *_: _CAPABILITY,
        "is_available": lambda: True,
        "synchronize": nothing,
    }
    for name, value in stands_for.items():
        stack.enter_context(_replaced(torch.cuda, name, value))
    stack.enter_context(_mode(torch))


def _mode(torch: ModuleType) -> Any:
    """A mode of torch that moves what is asked for on a GPU to the CPU."""
    here = torch.device("cpu")

    def moved(value: Any) -> Any:
        is_device = isinstance(value, torch.device) and value.type == "cuda"
        is_name = isinstance(value, str) and value.partition(":")[0] == "cuda"
        return here if is_device or is_name else value

    class OnCpu(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined, misc]
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            if function is torch.device:  # moved where it is used
                return function(*args, **(kwargs or {}))
            if function is torch.Tensor.cuda:
                return args[0]
            if function == torch.Tensor.is_cuda.__get__:
                return True
            kwargs = {name: moved(value) for name, value in (kwargs or {}).items()}
            return function(*map(moved, args), **kwargs)

    return OnCpu()
