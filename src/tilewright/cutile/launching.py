"""`launch`, with the parameters of `cuda.tile.launch`: compile with cuTile, run on the CPU."""

from __future__ import annotations

import io
import math
from collections import OrderedDict
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import cuda.tile as ct
from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

from tilewright.backends.cpu.executor import CpuKernel, compile_module
from tilewright.bytecode import decode
from tilewright.cutile.arguments import annotated_function, pass_arguments
from tilewright.errors import LaunchError
from tilewright.given import as_ints, shown
from tilewright.jit.bind.launch import MAX_BLOCKS

__all__ = ["BEHAVIOUR", "Behaviour", "launch"]

_VERSION = "13.4"  # of the bytecode
_KEPT = 256  # compiled kernels


@dataclass(frozen=True)
class Behaviour:
    """Options of launches.

    `strict` reports two cases of undefined behaviour that GPUs define: a tile wholly outside its
    array, which they fill with padding, and a float that becomes a truth value. `race_check`
    reports two blocks that access one element, one of them writing without an atomic.
    """

    strict: bool = False
    race_check: bool = False


_AS_GPUS_DO = Behaviour()

# Options of launches in this context; `on_cpu` sets them.
BEHAVIOUR: ContextVar[Behaviour] = ContextVar("cutile_behaviour", default=_AS_GPUS_DO)

# Compiled kernels by their specialisation; the cuTile kernel is kept alive so that its id stays
# unique.
_compiled: OrderedDict[tuple[Any, ...], tuple[Any, CpuKernel]] = OrderedDict()


def launch(
    stream: Any,
    grid: Sequence[int],
    kernel: Any,
    kernel_args: Sequence[Any],
    /,
    *,
    programmatic_dependent_launch: bool = False,
) -> None:
    """Run a kernel of cuTile Python on the CPU, as `cuda.tile.launch` runs it on a GPU.

    The call returns when the kernel has ended, so streams order nothing: `stream` and
    `programmatic_dependent_launch` are accepted and ignored. Undefined behaviour and races raise
    `tw.UndefinedBehaviourError`, with the line of the kernel.
    """
    if not isinstance(kernel, ct.kernel):
        raise LaunchError(f"a {type(kernel).__name__} is no kernel of cuTile: decorate it")
    blocks = _grid(grid)
    passed = pass_arguments(kernel, kernel_args)
    behaviour = BEHAVIOUR.get()
    ready = _compile(kernel, passed.constraints, behaviour.strict)
    ready.run(blocks, passed.numbers, passed.memories, race_check=behaviour.race_check)


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    try:
        numbers = as_ints(grid)
    except TypeError:
        numbers = ()
    if not 1 <= len(numbers) <= 3 or any(type(number) is bool for number in grid):
        raise LaunchError(
            f"a grid has one to three whole numbers, such as (8, 4, 1); not {shown(grid)}"
        )
    if min(numbers) < 1:
        raise LaunchError(f"a grid has at least one block along each axis; not {shown(grid)}")
    if math.prod(numbers) > MAX_BLOCKS:
        raise LaunchError(f"a grid has at most {MAX_BLOCKS} blocks; not {shown(grid)}")
    x, y, z = (*numbers, *(1,) * (3 - len(numbers)))
    return x, y, z


def _compile(kernel: Any, constraints: tuple[Any, ...], strict: bool) -> CpuKernel:
    key = (id(kernel), repr(constraints), strict)
    found = _compiled.pop(key, None)  # reinserted as the most recently used
    if found is not None:
        _compiled[key] = found
        return found[1]
    name = annotated_function(kernel).pyfunc.__name__
    signature = KernelSignature(constraints, CallingConvention.cutile_python_v2(), name)
    file = io.BytesIO()
    export_kernel(
        kernel,
        [signature],
        file,
        output_format="tileir_bytecode",
        bytecode_version=_VERSION,
    )
    ready = compile_module(decode(file.getvalue()).module, as_gpus=not strict)[name]
    _compiled[key] = kernel, ready
    while len(_compiled) > _KEPT:
        _compiled.popitem(last=False)
    return ready
