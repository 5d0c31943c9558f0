"""Launching: what a launch costs, the ways to wait, overlap and work on many streams, with peers.

    python benchmarks/launch.py [--only rates,graphs,modes,overlap,distribution] [--json FILE]

Needs a GPU, torch and the exported peers; Triton and cuTile Python are used where they are
installed. On the CPU (`--device cpu`) it only shows that it works.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lab import add_options, open_lab
from launch_graphs import measure_graphs
from launch_rates import measure_rates
from paper import distribution, modes, overlap
from parts import chosen_parts, run_parts

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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    add_options(parser)
    options = parser.parse_args()
    parts = chosen_parts(parser, PARTS, options.only)
    report = Report("launch", "Launching", options.json)
    lab = open_lab(options)
    try:
        run_parts({name: lambda part=part: part(lab, report) for name, part in parts.items()})
    except BrokenWay as broken:
        # What breaks on a GPU can take the context with it: the others get a new process.
        print(f"{broken}\nstarting again without it", flush=True)
        os.execv(sys.executable, [sys.executable, *sys.argv, "--without", broken.name])


if __name__ == "__main__":
    main()
