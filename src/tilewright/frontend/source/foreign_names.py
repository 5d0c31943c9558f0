"""Names of Triton, cuTile Python, torch and NumPy in kernels, with their equivalents.

Only for hints: none of these names has a meaning. A hint is looked up by the last part of a name,
so `tl.program_id`, `tw.program_id` and a bare `program_id` all find it.
"""

from __future__ import annotations

from tilewright.lang import functions

__all__ = ["foreign_hint", "is_foreign_module", "method_hint"]

# Usual names of other libraries' modules in kernels.
_ALIASES = frozenset({"tl", "triton", "libdevice", "ct", "cuda", "wp", "pl"})
_PACKAGES = ("triton", "cuda.tile", "numba.cuda", "warp")

_BLOCK = "`z.index` says which piece of output `z` this block owns; `tw.block_id(0)` numbers blocks"
_BLOCKS = "`tw.num_blocks(0)`, or the tiles of an axis: `p.num_tiles(0)`"
_LOAD = "load a tile: `x.load_like(z)`, `x.partition(BM, BK)[i, k]`, or by element `x.gather(i)`"
_STORE = "an output stores its own piece: `z.store(tile)`; a walked one `z.store(tile, at)`"
_DOT = "`a @ b`, or with an accumulator `tw.mma(a, b, acc)`"
_ATOMIC = "declare an `Accum[f32, N]` parameter: `s.add(tile)`, `s.add_at(values, i)`"
_CAST = "`t.astype(f16)`"
_CONST = "declare it: `*, BK: Const[int]`"

_HINTS: dict[str, str] = {
    "program_id": _BLOCK, "bid": _BLOCK, "num_programs": _BLOCKS, "num_blocks": _BLOCKS,
    "load": _LOAD, "store": _STORE, "dot": _DOT, "matmul": _DOT, "dot_scaled": "`tw.mma_scaled`",
    "atomic_add": _ATOMIC, "atomic_max": _ATOMIC, "atomic_min": _ATOMIC, "atomic_or": _ATOMIC,
    "atomic_and": _ATOMIC, "atomic_xor": _ATOMIC, "atomic_cas": _ATOMIC, "atomic_xchg": _ATOMIC,
    "constexpr": _CONST, "Constant": _CONST, "ConstInt": _CONST,
    "static_print": "`print(…)`", "device_print": "`print(…)`", "printf": "`print(…)`",
    "device_assert": "`assert condition, 'message'`", "assert_": "`assert condition, 'message'`",
    "make_block_ptr": _LOAD, "advance": _LOAD, "make_tensor_descriptor": _LOAD, "gather": _LOAD,
    "scatter": _STORE, "tile_load": _LOAD, "tile_store": _STORE, "multiple_of": _CONST,
    "max_contiguous": _CONST, "trans": "`t.T`, or `t.permute(1, 0)`", "transpose": "`t.T`",
    "permute": "`t.permute(1, 0)`", "reshape": "`t.reshape(2, 4)`", "view": "`t.reshape(2, 4)`",
    "expand_dims": "`t[:, None]`", "broadcast_to": "`t.broadcast_to(4, 8)`",
    "cast": _CAST, "astype": _CAST, "to": _CAST, "range": "`range(n)`",
    "associative_scan": "`tw.scan(t, lambda a, b: a + b, identity=0)`",
    "minimum": "`tw.minimum(a, b)`", "maximum": "`tw.maximum(a, b)`", "clip": "`tw.clamp(t, 0, 1)`",
    "concatenate": "`tw.cat((a, b), axis=0)`", "empty": "`tw.zeros((8,), f32)`",
    "zeros_like": "`tw.zeros(t.shape, t.dtype)`", "ones_like": "`tw.ones(t.shape, t.dtype)`",
    "full_like": "`tw.full(t.shape, 1, t.dtype)`", "syncthreads": "blocks need none: drop it",
    "debug_barrier": "blocks need none: drop it", "num_tiles": "`p.num_tiles(0)` of a partition",
}  # fmt: skip

_METHODS: dict[str, str] = {
    "to": _CAST, "type": _CAST, "float": "`t.astype(f32)`", "half": "`t.astype(f16)`",
    "int": "`t.astype(i32)`", "cast": _CAST, "view": "`t.reshape(2, 4)`", "trans": "`t.T`",
    "transpose": "`t.T`, or `t.permute(1, 0)`", "t": "`t.T`", "expand": "`t.broadcast_to(4, 8)`",
    "unsqueeze": "`t[:, None]`", "squeeze": "`t.reshape(8)`", "flatten": "`t.reshape(8)`",
    "dot": _DOT, "matmul": _DOT, "mm": _DOT,
    "clip": "`tw.clamp(t, 0, 1)`", "ndim": "`len(t.shape)`", "dim": "`len(t.shape)`",
}  # fmt: skip

_OF_TENSORS: dict[str, str] = {
    "size": "`x.shape[0]`", "numel": "`x.shape[0]`", "ndim": "`len(x.shape)`", "load": _LOAD,
    "dim": "`len(x.shape)`", "tiled_view": "`x.partition(BM, BK)`",
    "num_tiles": "`x.partition(BM, BK).num_tiles(0)`",
    "stride": "tiles are indexed by their number, and strides do not come up",
    "data_ptr": "there are no pointers: `x.partition(…)[i]` loads a tile",
}  # fmt: skip


def is_foreign_module(alias: str, package: str | None) -> bool:
    """Whether a name, or its module, belongs to another library."""
    if package is None:
        return alias in _ALIASES
    return any(package == each or package.startswith(f"{each}.") for each in _PACKAGES)


def foreign_hint(name: str) -> str:
    """The equivalent of a function of another library; empty if there is none."""
    if name in _HINTS:
        return f"here: {_HINTS[name]}"
    return f"here: `tw.{name}(…)`" if name in functions.__all__ else ""


def method_hint(name: str, receiver: str, *, is_tile: bool) -> str:
    """The equivalent of a method that a tile, or a tensor, does not have."""
    if not is_tile:
        return f"here: {_OF_TENSORS[name]}" if name in _OF_TENSORS else ""
    if name in _METHODS:
        return f"here: {_METHODS[name]}"
    return f"here: `tw.{name}({receiver})`" if name in functions.__all__ else ""
