"""The driver's calls for stream-ordered memory, as a part of the real driver."""

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
    """Memory of one GPU; the subclass binds its context and checks codes."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""

    def set_release_threshold(self, pool: Any, nbytes: int) -> None:
        """Set the bytes that a pool retains when they are free."""
        self._set_attribute(pool, _Attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nbytes)

    def pool_statistics(self, pool: Any) -> tuple[int, int, int, int]:
        """Return bytes used, their high-water mark, bytes reserved, their high-water mark."""
        self.bind()
        return (
            self._attribute(pool, _USED),
            self._attribute(pool, _HIGHEST_USED),
            self._attribute(pool, _RESERVED),
            self._attribute(pool, _HIGHEST_RESERVED),
        )

    def reset_pool_statistics(self, pool: Any) -> None:
        """Reset the high-water marks."""
        for name in (_HIGHEST_USED, _HIGHEST_RESERVED):
            self._set_attribute(pool, name, 0)

    @beside_captures
    def trim_pool(self, pool: Any, keep: int) -> None:
        """Release free memory to the system, except for `keep` bytes."""
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
        """Allocate memory from a stream-ordered pool; an empty tensor gets a byte."""
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
        """Free memory after the work on the stream so far."""
        if not stream.has_context:
            self.bind()
        (code,) = cu.cuMemFreeAsync(address, stream.handle)
        if code is not _SUCCESS:
            self.check("cuMemFreeAsync", code)
