"""The paper's experiments: tables here, figures, plots and machine as JSON under results/paper.

    python benchmarks/run_paper.py [--only elementwise,products,…] [--out FOLDER]

Needs a GPU, torch and the exported peers; Triton is used where it is installed. On the CPU
(`--device cpu`) the script only shows that it works, and keeps nothing without `--out`. `report.py`
makes the page of all results.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lab import add_options, open_lab
from paper import checks, distribution, elementwise, jit, modes, overlap, products, race
from parts import chosen_parts, run_parts

from tilewright.bench import Report

__all__ = ["main"]

EXPERIMENTS = {
    "elementwise": elementwise,
    "products": products,
    "modes": modes,
    "overlap": overlap,
    "distribution": distribution,
    "jit": jit,
    "race": race,
    "checks": checks,
}
RESULTS = Path(__file__).parent / "results" / "paper"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ",".join(EXPERIMENTS)
    parser.add_argument("--only", default=names, help=f"some of {names}")
    parser.add_argument("--out", type=Path, help="default: results/paper, if there is a GPU")
    add_options(parser)
    options = parser.parse_args()
    chosen = chosen_parts(parser, EXPERIMENTS, options.only)
    lab = open_lab(options)
    folder = options.out or (RESULTS if lab.has_gpu else None)

    def experiment(name: str) -> None:
        module = chosen[name]
        path = None if folder is None else folder / f"{name}.json"
        report = Report(name, module.TITLE, path)
        report.note(" ".join(module.__doc__.split("\n\n", 1)[1].split()))
        module.run(lab, report)

    run_parts({name: lambda name=name: experiment(name) for name in chosen})


if __name__ == "__main__":
    main()
