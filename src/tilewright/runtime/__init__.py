"""The host: devices, streams, tensors, borrows and operations. Imports nothing of the compiler."""

from __future__ import annotations

from tilewright.runtime.access import Access, Mode
from tilewright.runtime.copies import copy, fill
from tilewright.runtime.creation import empty, fill_by, from_numpy, full, ones, zeros
from tilewright.runtime.device import Device, current_device, device, synchronize
from tilewright.runtime.function import KernelFunction
from tilewright.runtime.graph import Graph, graph
from tilewright.runtime.lifecycle import State
from tilewright.runtime.lifetime import guard_process
from tilewright.runtime.operation import DeviceOp
from tilewright.runtime.partition import Partition, PersistentPartition
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream, stream
from tilewright.runtime.tensor import Tensor, move
from tilewright.runtime.work import Work, WorkOp
from tilewright.runtime.zipping import value, zip_operations

__all__ = [
    "Access",
    "Device",
    "DeviceOp",
    "Graph",
    "KernelFunction",
    "Mode",
    "Partition",
    "PersistentPartition",
    "State",
    "Storage",
    "Stream",
    "Tensor",
    "Work",
    "WorkOp",
    "copy",
    "current_device",
    "device",
    "empty",
    "fill",
    "fill_by",
    "from_numpy",
    "full",
    "graph",
    "move",
    "ones",
    "stream",
    "synchronize",
    "value",
    "zeros",
    "zip_operations",
]

guard_process()
