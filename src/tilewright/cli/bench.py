"""`tilewright bench`: library kernels on this machine, beside NumPy or torch."""

from __future__ import annotations

import difflib
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from tilewright.bench import Ceilings, Effort, Timer, machine_facts, measure_ceilings
from tilewright.cli.bench_cases import CASES, Case, CaseResult, measure_case
from tilewright.cli.options import json_option
from tilewright.cli.screen import BadInput, Screen
from tilewright.errors import DriverError, LaunchError
from tilewright.runtime.devices.device import Device, current_device

__all__ = ["bench_command"]

_QUICK = Effort(repetitions=5, warmup=0.01, rounds=2)


@click.command("bench")
@click.argument("names", nargs=-1, metavar="[KERNEL]…")
@click.option("--device", "place", metavar="NAME", help="Device: cpu, cuda:0 (default: the GPU).")
@click.option("--quick", is_flag=True, help="Few repetitions.")
@json_option
@click.pass_obj
def bench_command(
    screen: Screen, names: tuple[str, ...], place: str | None, quick: bool, as_json: bool
) -> None:
    """Measure library kernels, beside NumPy on the CPU and torch on a GPU.

    Results are checked first. The kernel and its peer take turns; a difference below the noise
    means nothing. The ceiling is the measured speed of this device: a copy, or a matrix product.
    """
    cases = [_find(name) for name in names] or list(CASES)
    stream = _open(place).stream
    effort = _QUICK if quick else Effort()
    with screen.working("measuring the ceilings of this device …"):
        ceilings = measure_ceilings(stream, _QUICK)
    rows = []
    for case in cases:
        with screen.working(f"{case.name} …"):
            rows.append(measure_case(case, Timer(stream, effort)))
    if as_json:
        screen.answer(
            {
                "machine": machine_facts(),
                "device": stream.device.name,
                "ceilings": ceilings.to_json(),
                "kernels": [_plain(row, ceilings) for row in rows],
            }
        )
    else:
        screen.out.print(_table(rows, ceilings))
    wrong = [f"{row.case.name}: {row.found.failures['tilewright']}" for row in rows if _failed(row)]
    if wrong:
        raise click.ClickException("; ".join(wrong))


def _find(name: str) -> Case:
    known = {case.name: case for case in CASES}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    raise BadInput(f"there is no benchmark of {name}; {hint}")


def _open(place: str | None) -> Device:
    try:
        found = current_device() if place is None else Device(place)
    except (DriverError, LaunchError) as error:
        raise BadInput(f"--device {place}: {error}") from None
    if not found.backend.can_run:
        raise BadInput(f"--device {place}: nothing runs there")
    return found


def _failed(row: CaseResult) -> bool:
    return "tilewright" in row.found.failures


def _plain(row: CaseResult, ceilings: Ceilings) -> dict[str, Any]:
    seconds = row.found.seconds("tilewright")
    has_peer = row.peer is not None and row.peer in row.found
    return {
        "kernel": row.case.name,
        "size": row.size,
        "dtype": row.dtype,
        "seconds": None if _failed(row) else seconds,
        "of_ceiling": None if _failed(row) else ceilings.fraction(row.work, seconds),
        "peer": row.peer,
        "peer_seconds": row.found.seconds(row.peer) if row.peer and has_peer else None,
        "noise": None if _failed(row) else row.found.noise,
        "error": row.found.errors.get("tilewright"),
        "failures": dict(row.found.failures),
    }


def _rate(number: float) -> str:
    """A rate with an SI prefix and three digits."""
    return f"{number / 1e12:.3g} T" if number >= 1e12 else f"{number / 1e9:.3g} G"


def _table(rows: list[CaseResult], ceilings: Ceilings) -> Table:
    table = Table(
        "kernel", "size", "us", "of ceiling", "peer", "us", "times as fast", "noise", box=None,
        title=f"ceilings: {_rate(ceilings.bandwidth)}B/s copied,"
        f" {_rate(ceilings.matrix_rate)}FLOP/s in {ceilings.matrix_dtype} products",
        title_justify="left", title_style="soft",
    )  # fmt: skip
    for column in table.columns[2:]:
        column.justify = "right"
    for row in rows:
        shown = f"{row.size[0]} x {row.size[1]} {row.dtype}"
        if _failed(row):
            table.add_row(row.case.name, shown, Text("wrong", "bad"))
            continue
        found, seconds = row.found, row.found.seconds("tilewright")
        cells = [f"{seconds * 1e6:.1f}", f"{ceilings.fraction(row.work, seconds):.1%}"]
        if row.peer is not None and row.peer in found:
            speed = found.speed("tilewright", row.peer)
            cells += [row.peer, f"{found.seconds(row.peer) * 1e6:.1f}", f"{speed:.2f}"]
        else:
            cells += ["–", "", ""]
        table.add_row(row.case.name, shown, *cells, f"{found.noise:.1%}")
    return table
