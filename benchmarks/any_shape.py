"""Library kernels on shapes drawn at random, beside the best library for each.

    python benchmarks/any_shape.py [--seed S] [--count N] [--only products,scaled] [--json FILE]

The distribution of each family is in its module. Prints the geometric mean, the worst twentieth and
the worst of the speeds, and the slowest problems. On the CPU small problems are checked only.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import any_shape_products as products
import any_shape_scaled as scaled
import numpy as np
from lab import Lab, add_options, open_lab

import tilewright as tw

__all__ = ["main", "summary"]

FAMILIES = {
    "products": (products.draw, products.measure),
    "layers": (products.layers, products.measure),
    "scaled": (scaled.draw, scaled.measure),
    "scaled layers": (scaled.layers, scaled.measure),
}


def summary(name: str, rows: list[dict[str, Any]]) -> str:
    """Mean, tail and worst of the speeds, and the slowest problems."""
    failed = [row for row in rows if "failed" in row]
    timed = sorted((row for row in rows if "speed" in row), key=lambda row: row["speed"])
    lines = [f"{name}: {len(rows)} problems, {len(failed)} failed"]
    lines += [f"  FAILED {row['problem']}: {row['failed']}" for row in failed]
    groups = {"all": timed}
    for kind in sorted({row["kind"] for row in timed}):
        groups[kind] = [row for row in timed if row["kind"] == kind]
    groups["rows not aligned"] = [row for row in timed if not row.get("aligned", True)]
    for kind, some in groups.items():
        if some:
            speeds = [row["speed"] for row in some]
            mean = math.exp(float(np.mean(np.log(speeds))))
            tail = speeds[len(speeds) // 20]
            lines.append(
                f"  {kind:18} {len(some):4}: mean {mean:.3f}, worst twentieth {tail:.3f},"
                f" worst {speeds[0]:.3f}"
            )
    for row in timed[:24]:
        lines.append(
            f"  {row['speed']:.3f} {row['problem']:40} ours {1e6 * row['ours']:9.1f} us,"
            f" peer {1e6 * row['cublas']:9.1f} {row.get('config', row.get('peer', ''))}"
        )
    return "\n".join(lines)


def run(lab: Lab, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Measure all families within the time."""
    end, found = time.monotonic() + options.seconds, {}
    for name, (draw, measure) in FAMILIES.items():
        if options.only and name not in options.only.split(","):
            continue
        rows = found[name] = []
        for row in measure(lab, draw(options.seed, options.count)):
            rows.append(row)
            if time.monotonic() > end:
                print(f"{name}: stopped after {len(rows)} problems", flush=True)
                break
        print(summary(name, rows), flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    add_options(parser)
    options = parser.parse_args()
    lab = open_lab(options)
    with tw.device(lab.device):
        found = run(lab, options)
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
