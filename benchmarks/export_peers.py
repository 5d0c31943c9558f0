"""Compile the cuTile Python kernels of the comparison, for a GPU host without cuTile.

    python benchmarks/export_peers.py [--folder .gpu/peers] [--target sm_90]

Writes one cubin a kernel and `manifest.json`, which `peers.py` reads. Assumptions about the arrays
are those that cuTile infers for contiguous, aligned tensors that do not overlap; tiles, order of
the blocks and padding are those of our kernels, so only the compilers differ. Needs the `dev`
extra, no GPU.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cuda.tile as ct
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    export_kernel,
)
from cutile_kernels import add, gemm_bands, gemm_persistent, gemm_rows

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain

__all__ = ["PEERS", "Peer", "main"]


@dataclass(frozen=True)
class Peer:
    """One cuTile Python kernel, its tile and its hints."""

    name: str
    function: Callable[..., None]
    tile: tuple[int, ...]  # the constants, in order; the output's tile comes first
    rank: int
    dtype: Any
    grid: str  # "rows": columns by rows; "line": tiles in a line; "persistent": as many as fit
    hints: dict[str, int] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """The name of the kernel in its cubin."""
        return self.name.replace("-", "_")

    def export(self, form: str, target: str) -> bytes:
        """The compiled kernel, as a cubin or as bytecode."""
        array = ArrayConstraint(
            self.dtype,
            self.rank,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=(*[None] * (self.rank - 1), 1),
            stride_divisible_by=(*[16] * (self.rank - 1), 1),
            shape_divisible_by=16,
            base_addr_divisible_by=16,
        )
        signature = KernelSignature(
            (array, array, array, *self.tile), CallingConvention.cutile_python_v1(), self.entry
        )
        file = io.BytesIO()
        kernel = ct.kernel(self.function, **self.hints)
        export_kernel(kernel, [signature], file, gpu_code=target, output_format=form)
        return file.getvalue()

    def describe(self) -> dict[str, Any]:
        """Launch data: each array is passed as address, extents, strides (i32)."""
        return {
            "entry": self.entry,
            "cubin": f"{self.name}.cubin",
            "tile": self.tile,
            "rank": self.rank,
            "dtype": str(self.dtype),
            "grid": self.grid,
            "hints": self.hints,
        }


def _gemm(
    form: str, function: Callable[..., None], grid: str, tile: tuple[int, int, int], **hints: int
) -> Peer:
    shape = "x".join(map(str, tile))
    ending = "".join(f"-{name.split('_')[1]}{value}" for name, value in hints.items())
    return Peer(f"gemm-{form}-{shape}{ending}", function, tile, 2, ct.float16, grid, hints)


_TILE = (128, 128, 64)
PEERS: tuple[Peer, ...] = (
    _gemm("rows", gemm_rows, "rows", _TILE),
    _gemm("bands", gemm_bands, "line", _TILE),
    *(_gemm("rows", gemm_rows, "rows", _TILE, num_worker_warps=warps) for warps in (4, 8)),
    *(_gemm("bands", gemm_bands, "line", _TILE, num_worker_warps=warps) for warps in (4, 8)),
    _gemm("persistent", gemm_persistent, "persistent", _TILE),
    *(
        _gemm("persistent", gemm_persistent, "persistent", _TILE, num_worker_warps=warps)
        for warps in (4, 8)
    ),
    _gemm(
        "persistent",
        gemm_persistent,
        "persistent",
        (256, 256, 64),
        num_ctas=2,
        num_worker_warps=8,
    ),
    *(Peer(f"add-{tile}", add, (tile,), 1, ct.float32, "line") for tile in (1024, 2048, 4096)),
    *(
        Peer(f"add-f16-{tile}", add, (tile,), 1, ct.float16, "line")
        for tile in (1024, 2048, 4096, 8192, 16384)
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".gpu/peers"))
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--bytecode", action="store_true", help="also write the bytecode")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    toolchain = find_toolchain()
    for peer in PEERS:
        cubin = peer.export("cubin", options.target)
        (options.folder / f"{peer.name}.cubin").write_bytes(cubin)
        found = cubin_resources(cubin)[peer.entry]
        print(
            f"{peer.name:44} {found.registers:4} registers {found.shared_memory:7} bytes shared"
            f" {found.stack_bytes:5} stack"
        )
        if options.bytecode:
            text = toolchain.disassemble(peer.export("tileir_bytecode", options.target))
            (options.folder / f"{peer.name}.mlir").write_text(text)
    manifest = {
        "cuda-tile": version("cuda-tile"),
        "tileiras": toolchain.version,
        "target": options.target,
        "peers": {peer.name: peer.describe() for peer in PEERS},
    }
    (options.folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
