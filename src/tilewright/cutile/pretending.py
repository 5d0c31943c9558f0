"""`on_cpu`: a context in which `cuda.tile.launch` and torch's CUDA tensors use the CPU.

A program written for a GPU requests torch tensors on "cuda" and torch's current stream. Where torch
is loaded, tensors are created on the CPU instead, and report a GPU as their device; torch's streams
and events do nothing, since a launch has ended when it returns.
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

_CAPABILITY = (10, 0)  # the first architecture with all of Tile IR


@contextmanager
def on_cpu(*, strict: bool = False, race_check: bool = False) -> Iterator[None]:
    """Run programs of cuTile Python on the CPU: `ct.launch` and torch's "cuda" refer to it.

    Names imported earlier, as by `from cuda.tile import launch`, are not affected: enter the
    context first, or run the program by `tilewright cutile program.py`.
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
    """Replace an attribute of a module temporarily."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _pretend(torch: ModuleType, stack: ExitStack) -> None:
    def nothing(*_: Any, **__: Any) -> None:
        """Do nothing: streams and events have no pending work."""

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
    """Return a torch mode that redirects requests for a GPU to the CPU."""
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
            if function is torch.device:  # redirected at its use
                return function(*args, **(kwargs or {}))
            if function is torch.Tensor.cuda:
                return args[0]
            if function == torch.Tensor.is_cuda.__get__:
                return True
            kwargs = {name: moved(value) for name, value in (kwargs or {}).items()}
            return function(*map(moved, args), **kwargs)

    return OnCpu()
