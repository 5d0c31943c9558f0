"""Architectures: the facts about a target on which compilation and occupancy depend.

The limits are those of the CUDA programming guide, and the rates of products those of the data
sheets of data-centre cards. No driver is queried, so the target may be a GPU of another machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "FIRST_WITH_CLUSTERS",
    "REGISTERS",
    "REGISTER_BYTES",
    "SYSTEM_SHARED",
    "Architecture",
    "TensorCores",
    "find_architecture",
    "has_clusters",
]

REGISTERS = 64 << 10  # of a multiprocessor, on all supported architectures
REGISTER_BYTES = 4 * REGISTERS  # of a multiprocessor: each register holds four
FIRST_WITH_CLUSTERS = 90  # older targets have one CTA for each block, and no early start
SYSTEM_SHARED = 1 << 10  # bytes of shared memory that the system reserves for each block


class TensorCores(Enum):
    """Where the tensor cores of a target add up a product, and where they read its factors."""

    WARP = "registers"  # each warp by itself, from registers (mma.sync)
    WARP_GROUP = "registers of four warps"  # from shared memory (wgmma)
    TENSOR_MEMORY = "tensor memory"  # from shared memory (tcgen05)


@dataclass(frozen=True)
class Architecture:
    """One architecture; sizes are those of a multiprocessor."""

    name: str
    shared_memory: int  # bytes
    threads: int
    tensor_cores: TensorCores
    operations: int | None = None  # of 16-bit products, for each clock; None: unknown

    @property
    def block_shared_memory(self) -> int:
        """Bytes of shared memory of the largest block."""
        return self.shared_memory - SYSTEM_SHARED

    @property
    def has_accelerator(self) -> bool:
        """Whether the tensor memory accelerator (TMA) copies tiles to shared memory."""
        return has_clusters(self.name)


_ARCHITECTURES = {
    name: Architecture(name, kilobytes << 10, threads, tensor_cores, operations)
    for name, kilobytes, threads, tensor_cores, operations in (
        ("sm_80", 164, 2048, TensorCores.WARP, 2048),
        ("sm_86", 100, 1536, TensorCores.WARP, None),
        ("sm_87", 164, 1536, TensorCores.WARP, None),
        ("sm_89", 100, 1536, TensorCores.WARP, 1024),
        ("sm_90", 228, 2048, TensorCores.WARP_GROUP, 4096),
        ("sm_100", 228, 2048, TensorCores.TENSOR_MEMORY, 8192),
        ("sm_103", 228, 2048, TensorCores.TENSOR_MEMORY, None),
        ("sm_110", 228, 1536, TensorCores.TENSOR_MEMORY, None),
        ("sm_120", 100, 1536, TensorCores.WARP, 1024),
        ("sm_121", 100, 1536, TensorCores.WARP, None),
    )
}


def find_architecture(name: str) -> Architecture | None:
    """Return the architecture of a target such as `sm_90`, or None for an unknown one."""
    return _ARCHITECTURES.get(name)


def has_clusters(name: str) -> bool:
    """Whether several CTAs can work on one block; True for a name of no architecture."""
    number = name.removeprefix("sm_")
    return not number.isdigit() or int(number) >= FIRST_WITH_CLUSTERS
