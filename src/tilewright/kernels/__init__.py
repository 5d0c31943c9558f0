"""The kernel library: softmax, norms, matrix products, attention and more, built on the public API.

`kernels.softmax(x)` and the other functions of tensors check their arguments, choose a
configuration and return an operation whose result is the output. The kernel behind a function is
public too, as `kernels.softmax_rows(…)`. Library kernels contain no unsafe code and no run-time
checks. A module is imported on first use of one of its names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.kernels.elements.histograms import (
        histogram,
        histogram_bins,
        histogram_elements,
        histogram_products,
    )
    from tilewright.kernels.elements.pointwise import (
        add,
        add_elements,
        add_rows,
        add_strided,
        dropout,
        dropout_elements,
        dropout_groups,
        dropout_rows,
        gelu,
        gelu_elements,
        gelu_rows,
        gelu_strided,
        silu_mul,
        silu_mul_elements,
        silu_mul_rows,
        silu_mul_strided,
    )
    from tilewright.kernels.elements.transposes import transpose, transpose_tiles
    from tilewright.kernels.gemm.gemv import gemv_kernel
    from tilewright.kernels.gemm.grouped import grouped_matmul, grouped_matmul_kernel
    from tilewright.kernels.gemm.matmuls import matmul, matmul_kernel, matvec
    from tilewright.kernels.gemm.once import matmul_once_kernel
    from tilewright.kernels.gemm.scaled import scaled_matmul
    from tilewright.kernels.gemm.scaled_kernels import (
        scaled_gemv_kernel,
        scaled_matmul_kernel,
        scaled_once_kernel,
        scaled_split_kernel,
    )
    from tilewright.kernels.gemm.splits import split_kernel, sum_splits_kernel
    from tilewright.kernels.gemm.warm_up import warm_up
    from tilewright.kernels.gemm.warm_up_scaled import warm_up_scaled
    from tilewright.kernels.gemm.wide import matmul_wide_kernel
    from tilewright.kernels.heads.decode import (
        Parts,
        attend_split,
        attend_whole,
        decode_attention,
        decode_parts,
    )
    from tilewright.kernels.heads.kv_cache import (
        append_dealt,
        append_few,
        append_kv,
        append_lines,
        append_many,
    )
    from tilewright.kernels.heads.norm_rope import norm_rope, norm_rope_append, norm_rope_few
    from tilewright.kernels.heads.prefill import (
        attention,
        attention_tiles,
        attention_tiles_with_lse,
        attention_walk,
    )
    from tilewright.kernels.heads.rotary import (
        rope,
        rope_at_starts,
        rope_in_step,
        rope_pairs_at_starts,
        rope_pairs_in_step,
    )
    from tilewright.kernels.heads.splitting import attention_splits, merge_splits
    from tilewright.kernels.heads.varlen import varlen_attention, varlen_attention_tiles
    from tilewright.kernels.rows.embeddings import embedding, embedding_rows
    from tilewright.kernels.rows.experts import (
        Routes,
        choose_experts,
        combine,
        combine_rows,
        order_tokens,
        rank_choices,
        route,
    )
    from tilewright.kernels.rows.norm_gradients import (
        layer_norm_gradient,
        norm_gradient_columns,
        norm_gradient_rows,
        rms_norm_gradient,
    )
    from tilewright.kernels.rows.norms import (
        add_rms_norm,
        add_rms_norm_rows,
        add_rms_norm_strided,
        layer_norm,
        layer_norm_rows,
        layer_norm_strided,
        rms_norm,
        rms_norm_rows,
        rms_norm_strided,
    )
    from tilewright.kernels.rows.quantising import (
        quantise,
        quantise_blocks,
        quantise_by_scale,
        quantise_rows,
        scale_of_sizes,
        sizes_of_rows,
    )
    from tilewright.kernels.rows.ranking import (
        argmax,
        argmax_rows,
        top_k,
        top_k_of_keys,
        top_keys_of_parts,
    )
    from tilewright.kernels.rows.reductions import (
        max,
        mean,
        min,
        reduce_columns,
        reduce_rows,
        reduce_strided,
        reduce_whole_rows,
        sum,
    )
    from tilewright.kernels.rows.sampling import (
        count_ids,
        count_tokens,
        penalise,
        penalise_rows,
        sample,
        sample_rows,
    )
    from tilewright.kernels.rows.scans import cumsum, scan_columns, scan_rows
    from tilewright.kernels.rows.scatters import last_places, scatter, scatter_rows
    from tilewright.kernels.rows.softmaxes import (
        cross_entropy,
        cross_entropy_gradient,
        cross_entropy_gradient_rows,
        cross_entropy_rows,
        softmax,
        softmax_rows,
        softmax_strided,
    )

__all__ = [
    "Parts",
    "Routes",
    "add",
    "add_elements",
    "add_rms_norm",
    "add_rms_norm_rows",
    "add_rms_norm_strided",
    "add_rows",
    "add_strided",
    "append_dealt",
    "append_few",
    "append_kv",
    "append_lines",
    "append_many",
    "argmax",
    "argmax_rows",
    "attend_split",
    "attend_whole",
    "attention",
    "attention_splits",
    "attention_tiles",
    "attention_tiles_with_lse",
    "attention_walk",
    "choose_experts",
    "combine",
    "combine_rows",
    "count_ids",
    "count_tokens",
    "cross_entropy",
    "cross_entropy_gradient",
    "cross_entropy_gradient_rows",
    "cross_entropy_rows",
    "cumsum",
    "decode_attention",
    "decode_parts",
    "dropout",
    "dropout_elements",
    "dropout_groups",
    "dropout_rows",
    "embedding",
    "embedding_rows",
    "gelu",
    "gelu_elements",
    "gelu_rows",
    "gelu_strided",
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
    "layer_norm_rows",
    "layer_norm_strided",
    "matmul",
    "matmul_kernel",
    "matmul_once_kernel",
    "matmul_wide_kernel",
    "matvec",
    "max",
    "mean",
    "merge_splits",
    "min",
    "norm_gradient_columns",
    "norm_gradient_rows",
    "norm_rope",
    "norm_rope_append",
    "norm_rope_few",
    "order_tokens",
    "penalise",
    "penalise_rows",
    "quantise",
    "quantise_blocks",
    "quantise_by_scale",
    "quantise_rows",
    "rank_choices",
    "reduce_columns",
    "reduce_rows",
    "reduce_strided",
    "reduce_whole_rows",
    "rms_norm",
    "rms_norm_gradient",
    "rms_norm_rows",
    "rms_norm_strided",
    "rope",
    "rope_at_starts",
    "rope_in_step",
    "rope_pairs_at_starts",
    "rope_pairs_in_step",
    "route",
    "sample",
    "sample_rows",
    "scale_of_sizes",
    "scaled_gemv_kernel",
    "scaled_matmul",
    "scaled_matmul_kernel",
    "scaled_once_kernel",
    "scaled_split_kernel",
    "scan_columns",
    "scan_rows",
    "scatter",
    "scatter_rows",
    "silu_mul",
    "silu_mul_elements",
    "silu_mul_rows",
    "silu_mul_strided",
    "sizes_of_rows",
    "softmax",
    "softmax_rows",
    "softmax_strided",
    "split_kernel",
    "sum",
    "sum_splits_kernel",
    "top_k",
    "top_k_of_keys",
    "top_keys_of_parts",
    "transpose",
    "transpose_tiles",
    "varlen_attention",
    "varlen_attention_tiles",
    "warm_up",
    "warm_up_scaled",
]

_NAMES = {
    "heads.decode": "Parts attend_split attend_whole decode_attention decode_parts",
    "rows.embeddings": "embedding embedding_rows",
    "gemm.gemv": "gemv_kernel",
    "gemm.grouped": "grouped_matmul grouped_matmul_kernel",
    "elements.histograms": "histogram histogram_bins histogram_elements histogram_products",
    "heads.kv_cache": "append_dealt append_few append_kv append_lines append_many",
    "gemm.once": "matmul_once_kernel",
    "gemm.warm_up": "warm_up",
    "gemm.warm_up_scaled": "warm_up_scaled",
    "gemm.wide": "matmul_wide_kernel",
    "gemm.matmuls": "matmul matmul_kernel matvec",
    "gemm.scaled": "scaled_matmul",
    "gemm.scaled_kernels": (
        "scaled_gemv_kernel scaled_matmul_kernel scaled_once_kernel scaled_split_kernel"
    ),
    "gemm.splits": "split_kernel sum_splits_kernel",
    "rows.experts": "Routes choose_experts combine combine_rows order_tokens rank_choices route",
    "rows.norm_gradients": (
        "layer_norm_gradient norm_gradient_columns norm_gradient_rows rms_norm_gradient"
    ),
    "rows.norms": (
        "add_rms_norm add_rms_norm_rows add_rms_norm_strided layer_norm layer_norm_rows"
        " layer_norm_strided rms_norm rms_norm_rows rms_norm_strided"
    ),
    "elements.pointwise": (
        "add add_elements add_rows add_strided dropout dropout_elements dropout_groups dropout_rows"
        " gelu gelu_elements gelu_rows gelu_strided silu_mul silu_mul_elements silu_mul_rows"
        " silu_mul_strided"
    ),
    "heads.norm_rope": "norm_rope norm_rope_append norm_rope_few",
    "heads.prefill": "attention attention_tiles attention_tiles_with_lse attention_walk",
    "rows.quantising": (
        "quantise quantise_blocks quantise_by_scale quantise_rows scale_of_sizes sizes_of_rows"
    ),
    "rows.ranking": "argmax argmax_rows top_k top_k_of_keys top_keys_of_parts",
    "rows.reductions": (
        "max mean min reduce_columns reduce_rows reduce_strided reduce_whole_rows sum"
    ),
    "heads.rotary": "rope rope_at_starts rope_in_step rope_pairs_at_starts rope_pairs_in_step",
    "rows.sampling": "count_ids count_tokens penalise penalise_rows sample sample_rows",
    "rows.scans": "cumsum scan_columns scan_rows",
    "rows.scatters": "last_places scatter scatter_rows",
    "rows.softmaxes": (
        "cross_entropy cross_entropy_gradient cross_entropy_gradient_rows cross_entropy_rows"
        " softmax softmax_rows softmax_strided"
    ),
    "elements.transposes": "transpose transpose_tiles",
    "heads.splitting": "attention_splits merge_splits",
    "heads.varlen": "varlen_attention varlen_attention_tiles",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import the module of a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
