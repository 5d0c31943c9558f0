"""`tilewright demo`: the tour, on a usable GPU or else on the CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

import tilewright as tw
from tilewright.backends.cuda.gpus import list_gpus
from tilewright.backends.cuda.toolkits import find_toolkit
from tilewright.check.ledger import Ledger
from tilewright.cli.ledgers import ledger_table, plain_source, summary_of
from tilewright.cli.options import json_option
from tilewright.cli.screen import BadInput, Screen, code_lines, error_text
from tilewright.cli.tour import TOUR, ComparedResult, Refusal
from tilewright.cli.tour_kernels import gemm_persistent
from tilewright.errors import ToolchainError
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.runtime.devices.backend import load_backend
from tilewright.settings import Settings
from tilewright.version import VERSION

__all__ = ["demo_command"]

Outcome = ComparedResult | Refusal


@dataclass(frozen=True)
class ChosenDevice:
    """A device, and the reason for the choice."""

    device: str
    why: str


@click.command("demo")
@click.option("--device", "wanted", metavar="NAME", help="Device: cpu, cuda, cuda:1.")
@json_option
@click.pass_context
def demo_command(ctx: click.Context, wanted: str | None, as_json: bool) -> None:
    """Take the tour: kernels that run, mistakes that are refused, and a ledger."""
    screen: Screen = ctx.obj
    page = screen.page(is_shown=not as_json)
    started = time.perf_counter()
    choice = ChosenDevice(wanted, "as asked") if wanted else _choose_device(os.environ)
    with tw.device(_open(choice.device)) as device:
        _show_start(page, device, choice)
        outcomes = list(_take_tour(screen, page))
        specialization = sample_specialization(gemm_persistent.signature, device.target)
        ledger = gemm_persistent.specialized(specialization).ledger
    is_right = all(outcome.is_right for outcome in outcomes) and not ledger.in_kernel
    elapsed = time.perf_counter() - started
    _show_ledger(page, ledger)
    _show_end(page, outcomes, elapsed, is_right)
    if as_json:
        screen.answer(_plain(choice, outcomes, ledger, is_right, elapsed))
    ctx.exit(0 if is_right else 1)


def _choose_device(environment: Mapping[str, str]) -> ChosenDevice:
    reason = load_backend("cuda").missing()
    if reason is not None:
        return ChosenDevice("cpu", reason)
    try:
        find_toolkit(Settings.from_environment(environment))
    except ToolchainError:
        return ChosenDevice(
            "cpu", "there is a GPU, but no toolkit to compile for it: tilewright doctor"
        )
    return ChosenDevice("cuda:0", "there is a GPU")


def _open(name: str) -> tw.Device:
    try:
        return tw.Device(name)
    except (tw.DriverError, tw.LaunchError) as error:
        raise BadInput(str(error)) from None


def _take_tour(screen: Screen, page: Console) -> Iterator[Outcome]:
    for chapter in TOUR:
        page.print(Text(f"\n{chapter.title}", "title"))
        page.print(Text(f"{chapter.words}\n", "soft"))
        for step in chapter.steps:
            if step.shows is not None:
                page.print(_inset(plain_source(step.shows.source), 2))
            with screen.working(f"{step.what} …"):
                outcome = step.take()
            _SHOWN[type(outcome)](page, outcome)
            yield outcome


# --- text output ----------------------------------------------------------------------------------


def _show_start(page: Console, device: tw.Device, choice: ChosenDevice) -> None:
    names = [gpu.name for gpu in list_gpus()]
    where = "the CPU" if device.kind == "cpu" else device.name
    if device.kind == "cuda" and device.ordinal < len(names):
        where = f"{where}, {names[device.ordinal]} ({device.target})"
    page.print(Text.assemble(("tilewright ", "title"), (VERSION, "title"), f" on {where}"))
    page.print(Text(choice.why, "soft"))


def _inset(shown: RenderableType, columns: int) -> Padding:
    """An indented renderable with an empty line below."""
    return Padding(shown, (0, 0, 1, columns), expand=False)


def _mark(outcome: Outcome) -> Text:
    return Text("✓", "good") if outcome.is_right else Text("✗", "bad")


def _show_comparison(page: Console, outcome: ComparedResult) -> None:
    error = "equal" if outcome.error == 0 else f"off by {outcome.error:.1e}"
    allowed = "" if outcome.is_right else f", {outcome.allowed:.0e} is allowed"
    page.print(
        Text.assemble(
            "  ", _mark(outcome), f" {outcome.kernel:<16} {outcome.what:<44} ",
            (f"{error}{allowed}", "good" if outcome.is_right else "bad"),
        )
    )  # fmt: skip


def _show_refusal(page: Console, outcome: Refusal) -> None:
    page.print(Text.assemble("  ", _mark(outcome), f" {outcome.what}"))
    for line in code_lines(outcome.code):
        page.print(Padding(line, (0, 0, 0, 6), expand=False))
    if outcome.raised is None:
        page.print(_inset(Text("nothing was raised", "bad"), 4))
        return
    text = str(outcome.raised)
    end = "\n" if "\n" in text else " "
    name = Text(f"{type(outcome.raised).__name__}:{end}", "bad")
    page.print(_inset(name + error_text(text), 4))


_SHOWN: dict[type[Outcome], Callable[[Console, Any], None]] = {
    ComparedResult: _show_comparison,
    Refusal: _show_refusal,
}


def _show_ledger(page: Console, ledger: Ledger) -> None:
    page.print(Text("\nThe ledger of gemm_persistent", "title"))
    page.print(Text("Every index of every access, where it was settled, and why.\n", "soft"))
    page.print(_inset(plain_source(gemm_persistent.source), 2))
    page.print(_inset(ledger_table(ledger), 2))
    page.print(f"  {summary_of(ledger)}")


def _show_end(page: Console, outcomes: list[Outcome], elapsed: float, is_right: bool) -> None:
    kernels = sum(isinstance(outcome, ComparedResult) for outcome in outcomes)
    if is_right:
        words = f"{kernels} kernels were right and {len(outcomes) - kernels} mistakes were refused"
    else:
        wrong = sum(not outcome.is_right for outcome in outcomes)
        words = f"{wrong} of {len(outcomes)} steps went wrong: please report this"
    page.print(Text(f"\n{words}, in {elapsed:.1f} s", "good" if is_right else "bad"))
    page.print(Text("next: tilewright explain FILE::kernel, on a kernel of yours", "soft"))


def _plain(
    choice: ChosenDevice, outcomes: list[Outcome], ledger: Ledger, is_right: bool, elapsed: float
) -> dict[str, Any]:
    return {
        "ok": is_right,
        "version": VERSION,
        "device": choice.device,
        "why": choice.why,
        "computed": [one.to_json() for one in outcomes if isinstance(one, ComparedResult)],
        "refused": [one.to_json() for one in outcomes if isinstance(one, Refusal)],
        "ledger": ledger.to_json(),
        "seconds": elapsed,
    }
