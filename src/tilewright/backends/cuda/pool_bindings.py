"""The driver's calls for memory that pools give to streams, as a part of the real driver."""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from cuda.bindings import driver as cu

from tilewright.backends.cuda.capture_bindings import beside_captures
from tilewright.errors import OutOfMemoryError

__all__ = ["PoolCalls"]

_Attribute = cu.CUmemPool_attribute
_USED = _Attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
_HIGHEST_USED = _Attribute.CU_MEMPOOL_ATTR_USED_MEM_HIGH
_RESERVED = _Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
_HIGHEST_RESERVED = _Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
_SUCCESS = cu.CUresult.CUDA_SUCCESS
_OUT_OF_MEMORY = cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY


class PoolCalls(ABC):
    """Memory of one GPU; whoever has it binds its context and checks codes."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise what a call failed with."""

    def set_release_threshold(self, pool: Any, nbytes: int) -> None:
        """How much a pool keeps when nothing of it is in use."""
        self._set_attribute(pool, _Attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nbytes)

    def pool_statistics(self, pool: Any) -> tuple[int, int, int, int]:
        """Bytes used, the most ever used, bytes reserved, the most ever reserved."""
        self.bind()
        return (
            self._attribute(pool, _USED),
            self._attribute(pool, _HIGHEST_USED),
            self._attribute(pool, _RESERVED),
            self._attribute(pool, _HIGHEST_RESERVED),
        )

    def reset_pool_statistics(self, pool: Any) -> None:
        """Let the highest numbers start again."""
        for name in (_HIGHEST_USED, _HIGHEST_RESERVED):
            self._set_attribute(pool, name, 0)

    @beside_captures
    def trim_pool(self, pool: Any, keep: int) -> None:
        """Give unused memory back to the system, all but so many bytes."""
        self.bind()
        (code,) = cu.cuMemPoolTrimTo(pool.handle, keep)
        self.check("cuMemPoolTrimTo", code)

    @beside_captures
    def _attribute(self, pool: Any, name: Any) -> int:
        code, number = cu.cuMemPoolGetAttribute(pool.handle, name)
        self.check("cuMemPoolGetAttribute", code)
        return int(number)

    @beside_captures
    def _set_attribute(self, pool: Any, name: Any, number: int) -> None:
        self.bind()
        (code,) = cu.cuMemPoolSetAttribute(pool.handle, name, cu.cuuint64_t(number))
        self.check("cuMemPoolSetAttribute", code)

    @beside_captures
    def allocate(self, nbytes: int, pool: Any, stream: Any) -> int:
        """Memory from a stream-ordered pool; an empty tensor gets a byte."""
        if not stream.has_context:
            self.bind()
        code, address = cu.cuMemAllocFromPoolAsync(max(nbytes, 1), pool.handle, stream.handle)
        if code is not _SUCCESS:
            if code == _OUT_OF_MEMORY:
                raise OutOfMemoryError(f"the GPU has no room for {nbytes} bytes")
            self.check("cuMemAllocFromPoolAsync", code)
        return int(address)

    @beside_captures
    def free(self, address: int, stream: Any) -> None:
        """Give memory back after everything put on the stream so far."""
        if not stream.has_context:
            self.bind()
        (code,) = cu.cuMemFreeAsync(address, stream.handle)
        if code is not _SUCCESS:
            self.check("cuMemFreeAsync", code)
