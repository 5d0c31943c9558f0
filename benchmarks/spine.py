"""The first whole path on a GPU: products, additions and residual checks, with peers.

    python benchmarks/spine.py [--only gemm,add,checks] [--quick] [--json FILE]

Needs a GPU and torch; the peers come from `export_peers.py`. Correctness comes first: what is wrong
is named and not timed.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from check_forms import measure_checks
from elementwise import measure_add
from gemm import measure_gemm
from harness import Report, Timer, machine
from peers import load_peers

import tilewright as tw

__all__ = ["main"]

PARTS = ("gemm", "add", "checks")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repetitions")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--peers", type=Path, default=Path(".gpu/peers"))
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    return options


def main() -> None:
    options = _options()
    quick: bool = options.quick
    timer = Timer(
        tw.Device("cuda:0").stream, repetitions=5 if quick else 15, rounds=2 if quick else 8
    )
    peers = load_peers(options.peers)
    report = Report(options.json, {"machine": machine(), "quick": quick})
    print("\n".join(f"{key}: {value}" for key, value in report.data["machine"].items()))
    sizes = (2048,) if quick else (8192, 4096, 2048)
    parts: dict[str, Callable[[], None]] = {
        "gemm": lambda: measure_gemm(timer, sizes, peers, report),
        "add": lambda: measure_add(timer, 2**24 if quick else 2**28, peers, report),
        "checks": lambda: measure_checks(timer, 2048 if quick else 8192, report),
    }
    for name in options.only:
        start = time.monotonic()
        try:
            parts[name]()
        except Exception:  # noqa: BLE001 (the other parts are still worth having)
            traceback.print_exc()
        print(f"[{name}: {time.monotonic() - start:.1f} s]", flush=True)


if __name__ == "__main__":
    main()
