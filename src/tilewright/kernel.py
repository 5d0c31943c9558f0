"""`@tw.kernel`: the one place that joins the language, the compiler and the host.

The decorator reads a kernel's source, a call specialises and checks it and builds an operation, and
submitting the operation runs it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial, update_wrapper
from itertools import count
from types import FrameType, FunctionType
from typing import Any, NoReturn, overload

from tilewright.check.placement import Placement
from tilewright.errors import CompileError, InternalError, LaunchError, TilewrightError
from tilewright.frontend.signature.signature import Signature, read_signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.frontend.source.capture import SourceFunction, capture
from tilewright.ir.inspections import Observer
from tilewright.jit.bind.binding import with_inferred
from tilewright.jit.bind.launch import bind_launch, check_grid, choose_grid_again, specialize
from tilewright.jit.cache.memory import SingleFlight
from tilewright.jit.compile.compiled import CompiledKernel, Options, Request, chosen_placement
from tilewright.jit.compile.executable import Executable, make_executable
from tilewright.jit.compile.launch_warnings import ExtentTeller, warn_of_padding
from tilewright.jit.loader import compiler
from tilewright.jit.plans.launch import (
    build_launch,
    check_launch,
    launch_later,
    refuse_guarded,
)
from tilewright.jit.plans.launches import Launches
from tilewright.lang.hints import HINTS, Hints, KernelHints
from tilewright.passes.report_form import ReportForm
from tilewright.runtime.devices.context import require_watchable
from tilewright.runtime.devices.device import Device
from tilewright.runtime.ops.call_site import with_user_frames
from tilewright.runtime.ops.deferring import has_operations
from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["GridLaunch", "Kernel", "kernel"]

OPTIONS = tuple(option.name for option in fields(Options))  # the decorator's, beside the hints
OF_LOADS = ("latency",)  # hints of single loads, refused by the decorator


class Kernel:
    """A kernel: call it with tensors to build an operation."""

    def __init__(
        self,
        function: FunctionType,
        options: Options,
        hints: KernelHints,
        local_names: Mapping[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        self.source: SourceFunction = capture(function)
        self.signature: Signature = read_signature(function, local_names)
        self.options = options
        self.hints = hints
        self._plain = self  # the kernel as decorated, without later hints
        self._observer: Observer | None = None
        if self.signature.pointers and not options.unsafe:
            pointer = self.signature.pointers[0].name
            raise CompileError(
                f"`{pointer}` of kernel `{self.__name__}` is a raw pointer (Ptr), which only an "
                f"unsafe kernel takes: pass a tensor, `{pointer}: Ref[…]` or `{pointer}: Mut[…]`, "
                "or declare the kernel `@tw.kernel(unsafe=True)`"
            )
        self._call_signature = with_inferred(self.signature, inspect.signature(function))
        self._extents = ExtentTeller()
        self._compiled: SingleFlight[CompiledKernel] = SingleFlight()
        self._executables: SingleFlight[Executable] = SingleFlight()
        self._remember_launches()

    def _remember_launches(self) -> None:
        """Start the launch cache for these options and hints."""
        self._launches = Launches(self.signature, self._call_signature)
        if self._launches.call is not None and not self.options.unsafe:
            # Python looks `__call__` up in the class alone, so each kernel has a class of its own.
            names = {"__call__": self._launches.call, "__doc__": Kernel.__doc__, "__slots__": ()}
            own = type("Kernel", (Kernel,), {**names, "__module__": __name__})
            self.__class__ = own  # pyright: ignore[reportAttributeAccessIssue] a subclass of ours

    def __call__(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation that runs this kernel; every check is made, nothing runs yet.

        An argument may be an operation: it runs first, on the same stream, and its result is the
        argument. Checks that depend on the result are made then.
        """
        return self.launch(None, args, kwargs)

    def unsafe(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation that runs an unsafe kernel; the caller vouches for its pointers.

        A pointer argument is the tensor it points into, which the operation borrows for writing.
        """
        return self.launch(None, args, kwargs, unsafe=True)

    def grid(self, *extents: int) -> GridLaunch:
        """Blocks along each axis, for a launch without an exact output: `k.grid(8, 4)(…)`."""
        return GridLaunch(self, check_grid(self.__name__, extents))

    def __getitem__(self, grid: Any) -> NoReturn:
        """Refuse `add[grid](…)`, the launch syntax of other languages."""
        raise LaunchError(
            f"kernel `{self.__name__}` is launched by a call, `{self.__name__}(z.partition(128), "
            f"…)`: how an output is cut is the grid; where no output says it, "
            f"`{self.__name__}.grid(n)(…)` does"
        )

    def launch(
        self,
        grid: tuple[int, ...] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        unsafe: bool = False,
    ) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation for a call with this grid, these arguments and this safety."""
        if unsafe is not self.options.unsafe:
            self._refuse_call(unsafe)
        try:
            again = self._launches.again(grid, args, kwargs)
            return self._launch_cold(grid, args, kwargs) if again is None else again
        except InternalError:
            raise
        except TilewrightError as error:
            raise with_user_frames(error)  # noqa: B904 (the same exception)

    def _launch_cold(
        self, grid: tuple[int, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> DeviceOp[tuple[Any, ...]]:
        """Bind, check and plan a call that the launch cache does not hold."""
        call = self._matched(args, kwargs)
        if has_operations(call.arguments.values()):
            return launch_later(self.signature, call, partial(self._launched, grid))
        binding = bind_launch(self.signature, call, grid, self.hints)
        result = binding.results(call.arguments)
        require_watchable(binding.device.kind, self.__name__)
        specialization = specialize(binding)
        executable = self._executable(binding.device, specialization, chosen_placement())
        choose_grid_again(binding, grid, executable.facts.hints)
        if not check_launch(executable.facts, binding):
            if self.options.deny_checks:
                raise refuse_guarded(executable.facts, binding)
            guarded = Placement.GUARDED_IN_KERNEL
            executable = self._executable(binding.device, specialization, guarded)
            if not check_launch(executable.facts, binding):
                raise InternalError(f"kernel `{self.__name__}` has no variant for this launch")
            warn_of_padding(executable.facts, binding)
            return build_launch(executable, binding, result)
        has_warned = warn_of_padding(executable.facts, binding)
        key = None if has_warned else self._launches.key(grid, binding, call)
        remember = None if key is None else partial(self._launches.keep, key, binding)
        return build_launch(executable, binding, result, remember)

    def _refuse_call(self, unsafe: bool) -> NoReturn:
        """Refuse a plain call of an unsafe kernel, or an unsafe call of a safe one."""
        if not unsafe:
            raise LaunchError(
                f"kernel `{self.__name__}` is unsafe: accesses through its pointers are not "
                f"checked. Launch it as `{self.__name__}.unsafe(…)`"
            )
        raise LaunchError(
            f"kernel `{self.__name__}` is not unsafe: launch it as `{self.__name__}(…)`"
        )

    def specialized(
        self, specialization: Specialization, placement: Placement = Placement.EARLIEST
    ) -> CompiledKernel:
        """This kernel compiled to Tile IR for one specialisation; needs no device.

        The globals, helpers and closures are those of the moment of the call.
        """
        compiled = self._compile(self._request(specialization, placement))
        self._extents.tell(self.source, self.signature, compiled.facts.untied)
        return compiled

    def _request(self, specialization: Specialization, placement: Placement) -> Request:
        return Request(
            self.source, self.signature, specialization, self.options, placement, self._observer
        )

    def _compile(self, request: Request) -> CompiledKernel:
        """Like `specialized`, without its warnings."""
        make = partial(compiler.compile_kernel, request)
        for edition in count():
            key = (request.placement, request.specialization, edition)
            compiled = self._compiled.get(key, make)
            if compiled.captures.are_current():
                return compiled
        raise AssertionError("counting has no end")

    def _matched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments of a call, by parameter."""
        try:
            call = self._call_signature.bind(*args, **kwargs)
        except TypeError as error:
            shown = ", ".join(self._call_signature.parameters)
            raise LaunchError(f"{self.__name__}({shown}): {error}") from None
        call.apply_defaults()
        return call

    def _launched(
        self, grid: tuple[int, ...] | None, call: inspect.BoundArguments
    ) -> DeviceOp[tuple[Any, ...]]:
        """The operation for a call whose arguments have all become known."""
        return self.launch(grid, call.args, call.kwargs, unsafe=self.options.unsafe)

    def _executable(
        self, device: Device, specialization: Specialization, placement: Placement
    ) -> Executable:
        """The executable for one specialisation, valid for the current captured values."""
        request = self._request(specialization, placement)
        kind = device.backend.runs
        make = partial(make_executable, kind, request, partial(self._compile, request))
        for edition in count():
            key = (kind, placement, specialization, edition)
            found = self._executables.get(key, make)
            if found.has_failed:  # its failure was raised already; compile again
                self._executables.forget(key, found)
                found = self._executables.get(key, make)
            if found.captures.are_current():
                self._extents.tell(self.source, self.signature, found.facts.untied)
                return found
        raise AssertionError("counting has no end")

    def with_hints(
        self,
        *,
        num_ctas: int | None = None,
        occupancy: int | None = None,
        num_worker_warps: int | None = None,
        opt_level: int | None = None,
        allow_tma: bool | None = None,
        starts_early: bool | None = None,
        hints: Mapping[str, Hints] | None = None,
    ) -> Kernel:
        """This kernel with other hints to the assembler: `k.with_hints(occupancy=2)(…)`.

        A hint that is None keeps its value; `hints` has those of single targets, as in the
        decorator.
        """
        given = Hints(num_ctas, occupancy, num_worker_warps, opt_level, allow_tma, starts_early)
        return _with_exactly(self, self.hints.updated(given, hints), self.options.report)

    def with_report(self, form: ReportForm | None) -> Kernel:
        """This kernel with another form of report for the checks that stay in it."""
        return _with_exactly(self, self.hints, form)

    def observed(self, observer: Observer | None) -> Kernel:
        """This kernel with an observer of its named tiles, for launches on the CPU."""
        changed = object.__new__(Kernel)
        vars(changed).update(vars(self), _observer=observer)
        changed._compiled, changed._executables = SingleFlight(), SingleFlight()
        changed._remember_launches()
        return changed

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by the qualified name, like a function, with changed hints beside it."""
        if self is self._plain:
            return self.__qualname__
        return _with_exactly, (self._plain, self.hints, self.options.report)

    def __repr__(self) -> str:
        return f"<kernel {self.__qualname__}>"


class GridLaunch:
    """A kernel with its grid; call it like the kernel."""

    __slots__ = ("extents", "kernel")

    def __init__(self, kernel: Kernel, extents: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.extents = extents

    def __call__(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation that runs the kernel on this grid."""
        return self.kernel.launch(self.extents, args, kwargs)

    def unsafe(self, *args: Any, **kwargs: Any) -> DeviceOp[tuple[Any, ...]]:
        """Build the operation that runs an unsafe kernel on this grid."""
        return self.kernel.launch(self.extents, args, kwargs, unsafe=True)

    def __repr__(self) -> str:
        return f"{self.kernel!r} on a grid of {self.extents}"


def _with_exactly(kernel: Kernel, hints: KernelHints, report: ReportForm | None) -> Kernel:
    """The same kernel with other hints, sharing its compiled specialisations."""
    changed = object.__new__(Kernel)
    vars(changed).update(vars(kernel), hints=hints)
    if report is not kernel.options.report:  # changes the code, so nothing is shared
        changed.options = replace(kernel.options, report=report)
        changed._compiled, changed._executables = SingleFlight(), SingleFlight()
    changed._remember_launches()
    return changed


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...
@overload
def kernel(
    *,
    deny_checks: bool = False,
    unsafe: bool = False,
    num_ctas: int | None = None,
    occupancy: int | None = None,
    num_worker_warps: int | None = None,
    opt_level: int | None = None,
    allow_tma: bool | None = None,
    starts_early: bool | None = None,
    hints: Mapping[str, Hints] | None = None,
    report: ReportForm | None = None,
) -> Callable[[Callable[..., None]], Kernel]: ...
def kernel(function: Any = None, /, **options: Any) -> Any:
    """Make a kernel of a function: `@tw.kernel` or `@tw.kernel(deny_checks=True)`.

    `deny_checks` refuses a kernel in which a bounds check would remain; `report` selects how a
    remaining check reports. `unsafe` allows raw pointers as parameters; such a kernel is launched
    as `k.unsafe(…)`. `num_ctas`, `occupancy`, `num_worker_warps`, `opt_level`, `allow_tma` and
    `starts_early` are hints, and `hints={"sm_90": tw.Hints(…)}` sets them for single targets.
    """
    local_names = _locals_of(sys._getframe().f_back)  # annotations may name them
    if function is None:
        return partial(_make, options=options, local_names=local_names)
    return _make(function, options=options, local_names=local_names)


def _locals_of(caller: FrameType | None) -> Mapping[str, Any]:
    """Local names of a caller; empty for a module, and for a thread that starts in our code."""
    if caller is None or caller.f_locals is caller.f_globals:
        return {}
    return dict(caller.f_locals)


def _make(function: Any, *, options: Mapping[str, Any], local_names: Mapping[str, Any]) -> Kernel:
    if not isinstance(function, FunctionType):
        raise CompileError(f"@tw.kernel takes a plain function, not {function!r}")
    of_options = {name: value for name, value in options.items() if name in OPTIONS}
    return Kernel(function, Options(**of_options), _read_hints(options), local_names)


def _read_hints(options: Mapping[str, Any]) -> KernelHints:
    """The hints among the options of a decorator; any other option is refused."""
    given = {name: value for name, value in options.items() if name not in (*OPTIONS, "hints")}
    for name in given:
        if name in OF_LOADS:
            raise CompileError(
                f"@tw.kernel has no option `{name}`: it is advice on a load, `p.load(i, {name}=…)`"
            )
        if name not in HINTS:
            known = ", ".join((*OPTIONS, *HINTS, "hints"))
            raise CompileError(f"@tw.kernel has no option `{name}`; it has: {known}")
    return KernelHints().updated(Hints(**given), options.get("hints"))
