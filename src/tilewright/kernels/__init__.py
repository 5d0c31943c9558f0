"""Our own kernels, written as a user would: public names only, nothing unsafe, no checks inside.

`kernels.softmax(x)` and its like are functions of tensors: they check their arguments, choose a
configuration, and give an operation whose result is the output. Each stands beside the kernel that
it launches, which can be called by itself, `kernels.softmax_rows(…)`. A module is loaded when a
name of it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.kernels.decode import (
        Parts,
        attend_split,
        decode_attention,
        decode_parts,
        merge_splits,
    )
    from tilewright.kernels.embeddings import embedding, embedding_rows
    from tilewright.kernels.gemv import gemv_kernel
    from tilewright.kernels.grouped import grouped_matmul, grouped_matmul_kernel
    from tilewright.kernels.histograms import (
        histogram,
        histogram_bins,
        histogram_elements,
        histogram_products,
    )
    from tilewright.kernels.kv_cache import append_dealt, append_few, append_kv, append_many
    from tilewright.kernels.matmul_once import matmul_once_kernel
    from tilewright.kernels.matmul_wide import matmul_wide_kernel
    from tilewright.kernels.matmuls import matmul, matmul_kernel, matvec, sum_splits_kernel
    from tilewright.kernels.norm_gradients import (
        layer_norm_gradient,
        layer_norm_gradient_rows,
        rms_norm_gradient,
        rms_norm_gradient_rows,
    )
    from tilewright.kernels.norms import (
        add_rms_norm,
        add_rms_norm_rows,
        layer_norm,
        layer_norm_rows,
        rms_norm,
        rms_norm_rows,
    )
    from tilewright.kernels.pointwise import (
        add,
        add_elements,
        add_rows,
        dropout,
        dropout_elements,
        dropout_rows,
        gelu,
        gelu_elements,
        gelu_rows,
        silu_mul,
        silu_mul_elements,
        silu_mul_rows,
    )
    from tilewright.kernels.prefill import (
        attention,
        attention_tiles,
        attention_tiles_with_lse,
        attention_walk,
    )
    from tilewright.kernels.ranking import (
        argmax,
        argmax_rows,
        top_k,
        top_k_of_keys,
        top_keys_of_parts,
    )
    from tilewright.kernels.reductions import (
        max,
        mean,
        min,
        reduce_columns,
        reduce_rows,
        reduce_whole_rows,
        sum,
    )
    from tilewright.kernels.rotary import (
        rope,
        rope_at_starts,
        rope_in_step,
        rope_pairs_at_starts,
        rope_pairs_in_step,
    )
    from tilewright.kernels.scans import cumsum, scan_columns, scan_rows
    from tilewright.kernels.scatters import last_places, scatter, scatter_rows
    from tilewright.kernels.softmaxes import (
        cross_entropy,
        cross_entropy_gradient,
        cross_entropy_gradient_rows,
        cross_entropy_rows,
        softmax,
        softmax_rows,
    )
    from tilewright.kernels.transposes import transpose, transpose_tiles
    from tilewright.kernels.varlen import varlen_attention, varlen_attention_tiles

__all__ = [
    "Parts",
    "add",
    "add_elements",
    "add_rms_norm",
    "add_rms_norm_rows",
    "add_rows",
    "append_dealt",
    "append_few",
    "append_kv",
    "append_many",
    "argmax",
    "argmax_rows",
    "attend_split",
    "attention",
    "attention_tiles",
    "attention_tiles_with_lse",
    "attention_walk",
    "cross_entropy",
    "cross_entropy_gradient",
    "cross_entropy_gradient_rows",
    "cross_entropy_rows",
    "cumsum",
    "decode_attention",
    "decode_parts",
    "dropout",
    "dropout_elements",
    "dropout_rows",
    "embedding",
    "embedding_rows",
    "gelu",
    "gelu_elements",
    "gelu_rows",
    "gemv_kernel",
    "grouped_matmul",
    "grouped_matmul_kernel",
    "histogram",
    "histogram_bins",
    "histogram_elements",
    "histogram_products",
    "last_places",
    "layer_norm",
    "layer_norm_gradient",
    "layer_norm_gradient_rows",
    "layer_norm_rows",
    "matmul",
    "matmul_kernel",
    "matmul_once_kernel",
    "matmul_wide_kernel",
    "matvec",
    "max",
    "mean",
    "merge_splits",
    "min",
    "reduce_columns",
    "reduce_rows",
    "reduce_whole_rows",
    "rms_norm",
    "rms_norm_gradient",
    "rms_norm_gradient_rows",
    "rms_norm_rows",
    "rope",
    "rope_at_starts",
    "rope_in_step",
    "rope_pairs_at_starts",
    "rope_pairs_in_step",
    "scan_columns",
    "scan_rows",
    "scatter",
    "scatter_rows",
    "silu_mul",
    "silu_mul_elements",
    "silu_mul_rows",
    "softmax",
    "softmax_rows",
    "sum",
    "sum_splits_kernel",
    "top_k",
    "top_k_of_keys",
    "top_keys_of_parts",
    "transpose",
    "transpose_tiles",
    "varlen_attention",
    "varlen_attention_tiles",
]

_NAMES = {
    "decode": "Parts attend_split decode_attention decode_parts merge_splits",
    "embeddings": "embedding embedding_rows",
    "gemv": "gemv_kernel",
    "grouped": "grouped_matmul grouped_matmul_kernel",
    "histograms": "histogram histogram_bins histogram_elements histogram_products",
    "kv_cache": "append_dealt append_few append_kv append_many",
    "matmul_once": "matmul_once_kernel",
    "matmul_wide": "matmul_wide_kernel",
    "matmuls": "matmul matmul_kernel matvec sum_splits_kernel",
    "norm_gradients": (
        "layer_norm_gradient layer_norm_gradient_rows rms_norm_gradient rms_norm_gradient_rows"
    ),
    "norms": "add_rms_norm add_rms_norm_rows layer_norm layer_norm_rows rms_norm rms_norm_rows",
    "pointwise": (
        "add add_elements add_rows dropout dropout_elements dropout_rows gelu gelu_elements"
        " gelu_rows silu_mul silu_mul_elements silu_mul_rows"
    ),
    "prefill": "attention attention_tiles attention_tiles_with_lse attention_walk",
    "ranking": "argmax argmax_rows top_k top_k_of_keys top_keys_of_parts",
    "reductions": "max mean min reduce_columns reduce_rows reduce_whole_rows sum",
    "rotary": "rope rope_at_starts rope_in_step rope_pairs_at_starts rope_pairs_in_step",
    "scans": "cumsum scan_columns scan_rows",
    "scatters": "last_places scatter scatter_rows",
    "softmaxes": (
        "cross_entropy cross_entropy_gradient cross_entropy_gradient_rows cross_entropy_rows"
        " softmax softmax_rows"
    ),
    "transposes": "transpose transpose_tiles",
    "varlen": "varlen_attention varlen_attention_tiles",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
