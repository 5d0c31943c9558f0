"""Configurations: the parameters of a launch that affect its speed and not its result.

They are constants by name (tile extents, flags, dtypes), hints to the assembler, the schedule of a
persistent output and the form of a residual check's report. A configuration is one flat set of
names, so that it prints in one line, is stored as JSON and can be searched axis by axis
(`tune.space`). Each kernel decides on its own names; this module knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from tilewright.dtypes import DTYPES, DType
from tilewright.errors import CompileError, TuneError
from tilewright.kernel import Kernel
from tilewright.lang.hints import HINTS, Hints
from tilewright.passes.report_form import ReportForm
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition

__all__ = ["SETTINGS", "Config", "Constant", "Schedule"]

# Types of a kernel's constants.
Constant = int | bool | type[DType]

_BY_LABEL = {dtype.label: dtype for dtype in DTYPES}
_SCHEDULE = ("blocks", "group")
# Names that are not constants of a kernel: None leaves the choice open.
SETTINGS = (*HINTS, *_SCHEDULE, "report")


@dataclass(frozen=True)
class Schedule:
    """Schedule of a persistent output; see `HostPartition.persistent`."""

    blocks: int | None = None  # maximum; None: as many as are resident on the device
    group: int | tuple[int, ...] = 1

    def __post_init__(self) -> None:
        extents = self.group if isinstance(self.group, tuple) else (self.group,)
        numbers = extents if self.blocks is None else (*extents, self.blocks)
        if not extents or not all(_is_count(number) for number in numbers):
            raise TuneError(
                "a schedule has a positive number of blocks and a positive group, or one for each "
                f"axis, not blocks={self.blocks!r} and group={self.group!r}"
            )


@dataclass(frozen=True)
class Config:
    """One way to launch a kernel. `Config.of(BM=128, BK=64, num_ctas=2, group=(8, 1))` makes one.

    `config["BM"]` is one of its values, a constant or a setting.
    """

    constants: tuple[tuple[str, Constant], ...] = ()  # sorted by name
    hints: Hints = field(default_factory=Hints)
    schedule: Schedule | None = None
    report: ReportForm | None = None

    @staticmethod
    def of(**values: Any) -> Config:
        """Return a configuration from its flat form; a name that is no setting is a constant."""
        return Config.from_values(values)

    @staticmethod
    def from_values(values: Mapping[str, Any]) -> Config:
        """Return a configuration from its flat form, as a mapping."""
        constants = {name: value for name, value in values.items() if name not in SETTINGS}
        for name, value in constants.items():
            _check_constant(name, value)
        return Config(
            tuple(sorted(constants.items())),
            _hints({name: values.get(name) for name in HINTS}),
            _schedule({name: values[name] for name in _SCHEDULE if values.get(name) is not None}),
            _report(values.get("report")),
        )

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Return the flat form, without open settings."""
        found: dict[str, Any] = {**dict(self.constants), **self.hints.given()}
        if self.schedule is not None:
            found["blocks"], found["group"] = self.schedule.blocks, self.schedule.group
        found["report"] = self.report
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def _hash(self) -> int:
        return hash((self.constants, self.hints, self.schedule, self.report))

    def __hash__(self) -> int:
        return self._hash  # cached, because launches look kernels up by it

    def __getitem__(self, name: str) -> Any:
        """Return a value by name; None for an open setting."""
        found = self.values.get(name)
        if found is None and name not in SETTINGS:
            known = ", ".join(name for name, _ in self.constants) or "none"
            raise TuneError(f"this configuration has no constant `{name}`; it has: {known}")
        return found

    def updated(self, **values: Any) -> Config:
        """Return this configuration with some values replaced."""
        return Config.from_values({**self.values, **values})

    # --- use in a launch ---

    def applied_to(self, kernel: Kernel) -> Kernel:
        """Return the kernel with this configuration's hints and report; the result is cached."""
        return _applied(kernel, self)

    def arguments(self, kernel: Kernel) -> dict[str, Constant]:
        """Return the constants that the kernel takes as keywords: `k(…, **config.arguments(k))`."""
        taken = {param.name for param in kernel.signature.constants}
        return {name: value for name, value in self.constants if name in taken}

    def walk(self, cut: HostPartition) -> PersistentPartition:
        """Return a persistent output with this configuration's schedule."""
        schedule = self.schedule or Schedule()
        return cut.persistent(schedule.blocks, schedule.group)

    # --- as text ---

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json`."""
        return {name: _plain(value) for name, value in self.values.items()}

    @staticmethod
    def from_json(data: Any) -> Config:
        """Return a configuration that `to_json` wrote; other data is a `TuneError`."""
        if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
            raise TuneError(f"a configuration is an object of values by name, not {data!r}")
        return Config.from_values(
            {name: _READERS.get(name, _constant)(data[name]) for name in data}
        )

    def __str__(self) -> str:
        shown = (f"{name}={_short(value)}" for name, value in self.values.items())
        return " ".join(shown) or "(nothing set)"


@lru_cache(maxsize=1024)
def _applied(kernel: Kernel, config: Config) -> Kernel:
    hints = config.hints
    if config.report is not None:
        kernel = kernel.with_report(config.report)
    return kernel.with_hints(
        num_ctas=hints.num_ctas,
        occupancy=hints.occupancy,
        num_worker_warps=hints.num_worker_warps,
        opt_level=hints.opt_level,
        allow_tma=hints.allow_tma,
        starts_early=hints.starts_early,
    )


# --- from loose values ----------------------------------------------------------------------------


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _check_constant(name: str, value: Any) -> None:
    if not name.isidentifier():
        raise TuneError(f"{name!r} is no name for a constant")
    if not isinstance(value, int) and value not in DTYPES:
        raise TuneError(
            f"the constant `{name}` is {value!r}; a kernel is specialised on integers, truth "
            "values and dtypes"
        )


def _hints(values: Mapping[str, Any]) -> Hints:
    try:
        return Hints(**values)
    except CompileError as error:
        raise TuneError(str(error)) from None


def _schedule(values: Mapping[str, Any]) -> Schedule | None:
    return Schedule(**values) if values else None


def _report(value: Any) -> ReportForm | None:
    if value is not None and not isinstance(value, ReportForm):
        raise TuneError(f"`report` is a tw.ReportForm, not {value!r}")
    return value


# --- as JSON, and in one line ---------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, ReportForm):
        return value.name
    if isinstance(value, tuple):
        return list(value)
    return value.label if value in DTYPES else value


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(_plain(value))


def _constant(value: Any) -> Any:
    """Return the constant of a JSON value: a string is the name of a dtype."""
    return _BY_LABEL.get(value, value) if isinstance(value, str) else value


def _group(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _form(value: Any) -> Any:
    return ReportForm.__members__.get(value, value) if isinstance(value, str) else value


_READERS: dict[str, Callable[[Any], Any]] = {
    **{name: lambda value: value for name in (*HINTS, "blocks")},
    "group": _group,
    "report": _form,
}
