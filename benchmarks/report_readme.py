"""The figures that README.md quotes, taken from the reports: one row each, beside the best peer.

A missing report omits its rows. Names of candidates and parts are those of the measuring scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import geometric_mean, median
from typing import Any

import launch_graphs
import launch_rates
from attention import CUDNN
from attention import OURS as ATTENTION
from paper import elementwise, products

from tilewright.bench import Table

__all__ = ["BEGIN", "END", "PLOTS", "readme_with"]

BEGIN, END = "<!-- figures: benchmarks/report.py -->", "<!-- end of figures -->"
FOLDER = "benchmarks/results"
# Report and plot, as README.md shows them.
PLOTS = (
    ("products", "products"),
    ("attention", "attention-causal-128"),
    ("elementwise", "elementwise"),
    ("modes", "modes"),
)

Reports = Mapping[str, Mapping[str, Any]]
Row = tuple[str, str, str, str]


def readme_with(text: str, reports: Reports) -> str:
    """README.md with the figures of the reports; unchanged without a report of products."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or "products" not in reports:
        return text
    table = Table("", ("workload", "ours", "peer", "ours / peer, as speed"))
    for report, quote in _QUOTES:
        if report in reports:
            for row in quote(reports[report]["figures"]):
                table.add(*row)
    plots = "\n".join(_plots(reports))
    return f"{before}{BEGIN}\n{_machine(reports)}\n\n{table.to_markdown()}\n\n{plots}\n{END}{after}"


def _machine(reports: Reports) -> str:
    facts = reports["products"]["machine"]
    gpu = facts["gpus"][0]["name"] if facts["gpus"] else facts["processor"]
    return f"On one {gpu}, {facts['date'].partition('T')[0]}:"


def _plots(reports: Reports) -> Iterator[str]:
    for name, plot in PLOTS:
        for one in reports.get(name, {}).get("plots", ()):
            if one["name"] == plot:
                folder = reports[name]["folder"].name
                place = FOLDER if folder == "results" else f"{FOLDER}/{folder}"
                yield f"![{one['title']}]({place}/{plot}.svg)"


# --- rows -----------------------------------------------------------------------------------------


def _row(what: str, ours: float, peer: float, unit: str, name: str, *, digits: int = 0) -> Row:
    """A rate, of which more is better."""
    return what, f"{ours:.{digits}f} {unit}", f"{name}: {peer:.{digits}f}", f"{ours / peer:.3f}"


def _products(figures: Mapping[str, Any]) -> Iterator[Row]:
    for entry in figures["products"]:
        rates = entry["rates"]
        if {products.LIBRARY, products.CUBLAS} <= rates.keys():
            ours, peer = rates[products.LIBRARY], rates[products.CUBLAS]
            what = f"f16 product of {entry['size']} x {entry['size']} matrices"
            yield _row(what, ours, peer, "TFLOP/s", "cuBLAS")


def _attention(figures: Mapping[str, Any]) -> Iterator[Row]:
    for entry in figures.get("prefill", ()):
        shape, rates = entry["shape"], entry["rates"]
        is_shown = shape["length"] == 8192 and {CUDNN, ATTENTION} <= rates.keys()
        if is_shown:
            kind = "causal attention" if shape["causal"] else "attention"
            what = f"f16 {kind}, 8192 tokens, {shape['channels']} channels"
            yield _row(what, rates[ATTENTION], rates[CUDNN], "TFLOP/s", "cuDNN")


def _addition(figures: Mapping[str, Any]) -> Iterator[Row]:
    largest = max(figures["add"], key=lambda entry: entry["power"])
    rates = largest["rates"]
    if {elementwise.SAFE, elementwise.TORCH} <= rates.keys():
        what = f"`z = x + y` of 2^{largest['power']} f16 numbers"
        ours, peer = (rates[name] / 1e3 for name in (elementwise.SAFE, elementwise.TORCH))
        yield _row(what, ours, peer, "TB/s", "torch", digits=2)


def _memory_bound(figures: Mapping[str, Any]) -> Iterator[Row]:
    ratios = [entry["ratio"] for entry in figures.get("problems", ()) if entry["ratio"]]
    if ratios:
        what = f"memory-bound kernels, mean of {len(ratios)}"
        yield what, "", "the better of torch.compile and Triton", f"{geometric_mean(ratios):.3f}"


def _launches(figures: Mapping[str, Any]) -> Iterator[Row]:
    times = {entry["name"]: entry["done"]["least"] * 1e6 for entry in figures.get("rates", ())
             if "name" in entry}  # fmt: skip
    peers = [launch_rates.CUTILE, "torch.add", "Triton", launch_rates.FLOOR]
    for peer in peers:
        if peer in times and launch_rates.OURS in times:
            ours = times[launch_rates.OURS]
            ratio = f"{times[peer] / ours:.2f}"
            yield "a launch, all checks on", f"{ours:.1f} us", f"{peer}: {times[peer]:.1f}", ratio


def _graphs(figures: Mapping[str, Any]) -> Iterator[Row]:
    entries = [entry for entry in figures.get("graphs", ()) if "name" in entry]
    times: dict[tuple[str, int], list[float]] = {}  # of several graphs of each kind
    for one in entries:
        kind = times.setdefault((one["name"], one["tensors"]), [])
        kind.append(one["done"]["least"] * 1e6 / one["nodes"])
    for tensors in sorted({tensors for _, tensors in times}):
        kinds = times.get((launch_graphs.OURS, tensors)), times.get((launch_graphs.DRIVER, tensors))
        if all(kinds):
            ours, peer = (median(kind) for kind in kinds if kind)
            what = f"a launch in a graph, over {tensors} tensors"
            cells = f"{ours:.2f} us", f"driver: {peer:.2f}", f"{peer / ours:.2f}"
            yield what, *cells


def _cpu(figures: Mapping[str, Any]) -> Iterator[Row]:
    rows = [one for one in figures.get("cpu_backend", ()) if one["times_faster"]]
    if rows:
        ours, peer, ratio = (
            sorted(one[name] for one in rows)
            for name in ("tilewright_s", "triton_interpreter_s", "times_faster")
        )
        yield (
            f"without a GPU: {', '.join(one['workload'] for one in rows)}",
            f"{ours[0] * 1e3:.0f} to {ours[-1] * 1e3:.0f} ms",
            f"Triton's interpreter: {peer[0]:.1f} to {peer[-1]:.1f} s",
            f"{ratio[0]:.0f} to {ratio[-1]:.0f}",
        )


_QUOTES: tuple[tuple[str, Callable[[Mapping[str, Any]], Iterator[Row]]], ...] = (
    ("products", _products),
    ("attention", _attention),
    ("elementwise", _addition),
    ("memory_bound", _memory_bound),
    ("launch", _launches),
    ("launch", _graphs),
    ("cpu_backend", _cpu),
)
