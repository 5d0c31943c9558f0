"""The names of the runtime that tests use as `tw`; no layer above it is loaded."""

from __future__ import annotations

from tilewright.runtime.devices.device import Device, current_device, device, synchronize
from tilewright.runtime.devices.function import KernelFunction
from tilewright.runtime.devices.stream import Stream, stream
from tilewright.runtime.graphs.graph import Graph, graph
from tilewright.runtime.memory.creation import empty, fill_by, from_numpy, full, ones, zeros
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.memory.tensor import Tensor, move
from tilewright.runtime.ops.chain import value, zip_operations
from tilewright.runtime.ops.copies import copy, fill
from tilewright.runtime.ops.launch import LaunchOp, make_operation
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.work import DeviceWork
from tilewright.runtime.order.access import Access, Mode

__all__ = [
    "Access",
    "Device",
    "DeviceOp",
    "DeviceWork",
    "Graph",
    "HostPartition",
    "KernelFunction",
    "LaunchOp",
    "Mode",
    "PersistentPartition",
    "State",
    "Storage",
    "Stream",
    "Tensor",
    "copy",
    "current_device",
    "device",
    "empty",
    "fill",
    "fill_by",
    "from_numpy",
    "full",
    "graph",
    "make_operation",
    "move",
    "ones",
    "stream",
    "synchronize",
    "value",
    "zeros",
    "zip_operations",
]
