"""Options shared by commands: `--set NAME=VALUE`, `--target`, `--json`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import click

from tilewright.cli.screen import BadInput
from tilewright.dtypes import DTYPES, DType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.samples import sample_specialization, settable_names
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.signature.specialization import Specialization
from tilewright.kernel import Kernel
from tilewright.runtime.devices.backend import load_backend
from tilewright.runtime.devices.device import Device
from tilewright.settings import LONGEST

__all__ = [
    "TARGETS",
    "amount_of_memory",
    "json_option",
    "kernel_options",
    "read_settings",
    "sample_text",
    "seconds_option",
    "specialization_for",
    "target_here",
]

# Targets of tileiras.
TARGETS = (
    "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_100", "sm_103", "sm_107", "sm_110", "sm_120", "sm_121",
)  # fmt: skip
_WITHOUT_GPU = "sm_90"

Command = TypeVar("Command", bound=Callable[..., Any])


def _seconds(text: Any) -> float:
    """Option type of a time: above zero, and within the range of every clock."""
    try:
        found = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number of seconds") from None
    if not 0 < found <= LONGEST and found != math.inf:
        raise click.BadParameter(f"{text} is not above 0 and at most {LONGEST:,} seconds")
    return found


def amount_of_memory(text: Any) -> int:
    """Option type of an amount of memory: 4096, 512K, 64M, 8G."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"(\d{1,18})([KMGT]?)", text, re.ASCII)
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{text!r} is no amount of memory: write 4096, 512K, 64M or 8G")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def seconds_option(name: str, default: float, help: str) -> Callable[[Command], Command]:
    """An option that is a time; an infinite default is not shown."""
    return click.option(
        name,
        type=_seconds,
        metavar="SECONDS",
        default=default,
        show_default=default != math.inf,
        help=help,
    )


def json_option(command: Command) -> Command:
    """`--json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return option(command)


def kernel_options(command: Command) -> Command:
    """The options that choose a kernel's specialisation."""
    choose = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Choose a static dim, a constant or a dtype: --set BM=64 --set T=bf16.",
    )
    target = click.option(
        "--target",
        type=click.Choice(TARGETS),
        metavar="sm_NN",
        help=f"Target GPU (default: that of this machine, or {_WITHOUT_GPU}).",
    )
    return target(choose(command))


def specialization_for(
    kernel: Kernel, settings: Sequence[str], target: str | None
) -> Specialization:
    """The specialisation that the options choose; open choices take their usual values."""
    chosen = read_settings(kernel.signature, settings)
    try:
        wanted = target or target_here()
        return sample_specialization(kernel.signature, wanted, chosen, kernel.hints.of(wanted))
    except LaunchError as error:
        raise BadInput(f"{error}, with --set NAME=VALUE") from None


def sample_text(samples: Mapping[str, int]) -> str:
    """A sentence about sampled constants, which launches infer from tensors; empty if none."""
    if not samples:
        return ""
    shown = ", ".join(f"{name} = {number}" for name, number in samples.items())
    first = next(iter(samples))
    return f"with {shown} as a sample of inferred values: --set {first}=… tries another"


def target_here() -> str:
    """The target of this machine's GPU, or a usual one."""
    return _WITHOUT_GPU if load_backend("cuda").missing() else Device("cuda:0").target


def read_settings(signature: Signature, settings: Sequence[str]) -> dict[str, Any]:
    """The values of `--set NAME=VALUE`, by name."""
    kinds = settable_names(signature)
    lowest = _lowest_extents(signature)
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise BadInput(f"--set {setting}: write it as NAME=VALUE")
        if name not in kinds:
            close = difflib.get_close_matches(name, kinds, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(kinds)}"
            raise BadInput(f"--set {setting}: kernel `{signature.kernel}` has no {name}; {hint}")
        try:
            is_extent = kinds[name] is int and name in lowest
            chosen[name] = (
                _read_extent(text, lowest[name]) if is_extent else _read_setting(kinds[name], text)
            )
        except ValueError as error:
            raise BadInput(f"--set {setting}: {error}") from None
    return chosen


def _lowest_extents(signature: Signature) -> dict[str, int]:
    """The least value of each dim that names an axis: a tensor may be empty, a tile may not."""
    found = {dim: 0 for _, _, dim in signature.named_axes() if isinstance(dim, str)}
    for output in signature.cut_outputs:
        found.update((dim, 1) for dim in output.dims if isinstance(dim, str))
    return found


def _read_setting(kind: type, text: str) -> Any:
    if kind in _READERS:
        return _READERS[kind](text)
    if not issubclass(kind, Enum):
        raise ValueError("a function cannot be set here: give the parameter a default")
    return _read_member(kind, text)


def _read_member(kind: type[Enum], text: str) -> Enum:
    """A member of an enum by its name, else by its value if that is unique."""
    if text in kind.__members__:
        return kind[text]
    values = {one: str(one.value) for one in kind if type(one.value) in (bool, int, float, str)}
    found = [one for one, value in values.items() if value == text]
    if len(found) != 1:
        members = (f"{one.name} ({values[one]})" if one in values else one.name for one in kind)
        raise ValueError(f"{kind.__name__} is one of {', '.join(members)}: give a name or a value")
    return found[0]


def _read_extent(text: str, lowest: int) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= lowest):
        sign = "positive whole number" if lowest else "whole number, not negative,"
        raise ValueError(f"a {sign} is needed")
    return int(text)


def _read_integer(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError("a whole number is needed")
    return int(text)


def _read_bool(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError("say true or false")
    return known[text.lower()]


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def _read_dtype(text: str) -> type[DType]:
    known = {dtype.label: dtype for dtype in DTYPES}
    if text not in known:
        close = difflib.get_close_matches(text, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise ValueError(f"there is no dtype {text}; {hint}")
    return known[text]


_READERS: dict[type, Callable[[str], Any]] = {
    int: _read_integer,
    bool: _read_bool,
    float: _read_float,
    str: str,
    DType: _read_dtype,
}
