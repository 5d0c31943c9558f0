"""Parts of a benchmark: a failing part is reported and does not stop the others."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from lab import add_options

from tilewright.bench import BrokenWay

__all__ = ["chosen_parts", "read_options", "run_parts"]

Part = TypeVar("Part")


def read_options(
    description: str, parts: Mapping[str, Part]
) -> tuple[argparse.Namespace, dict[str, Part]]:
    """The options of a benchmark with one report, and the chosen parts."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--only", default=",".join(parts), help=f"some of {', '.join(parts)}")
    parser.add_argument("--json", type=Path, help="output file of all figures")
    add_options(parser)
    options = parser.parse_args()
    return options, chosen_parts(parser, parts, options.only)


def chosen_parts(
    parser: argparse.ArgumentParser, parts: Mapping[str, Part], names: str
) -> dict[str, Part]:
    """The parts that `--only` names."""
    chosen = names.split(",")
    if unknown := set(chosen) - set(parts):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    return {name: parts[name] for name in chosen}


def run_parts(parts: Mapping[str, Callable[[], None]]) -> None:
    """Run all parts in order; the process ends with 1 if one failed."""
    broken = []
    for name, part in parts.items():
        start = time.monotonic()
        try:
            part()
        except BrokenWay:
            raise  # the caller restarts without it
        except Exception:  # noqa: BLE001 (the other parts still run)
            traceback.print_exc()
            broken.append(name)
        print(f"[{name}: {time.monotonic() - start:.1f} s]\n", flush=True)
    if broken:
        sys.exit(f"broken: {', '.join(broken)}")
