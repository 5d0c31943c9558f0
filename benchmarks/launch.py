"""Launch overhead, execution modes, overlap and many streams, with peers.

    python benchmarks/launch.py [--only rates,graphs,modes,overlap,distribution] [--json FILE]

Needs a GPU, torch and the exported peers; Triton and cuTile Python are used where they are
installed. On the CPU (`--device cpu`) the script only shows that it works.
"""

from __future__ import annotations

import os
import sys

from lab import open_lab
from launch_graphs import measure_graphs
from launch_rates import measure_rates
from paper import distribution, modes, overlap
from parts import read_options, run_parts

from tilewright.bench import BrokenWay, Report

__all__ = ["main"]

PARTS = {
    "rates": measure_rates,
    "graphs": measure_graphs,
    "modes": modes.run,
    "overlap": overlap.run,
    "distribution": distribution.run,
}


def main() -> None:
    options, parts = read_options(__doc__, PARTS)
    report = Report("launch", "Launching", options.json)
    lab = open_lab(options)
    for name in options.without:
        report.figure("left out", failures={name: "it was left out of this run"})
    try:
        run_parts({name: lambda part=part: part(lab, report) for name, part in parts.items()})
    except BrokenWay as broken:
        # A failure on a GPU can destroy the context, so the other ways get a new process.
        print(f"{broken}\nrestarting without it", flush=True)
        os.execv(sys.executable, [sys.executable, *sys.argv, "--without", broken.name])


if __name__ == "__main__":
    main()
