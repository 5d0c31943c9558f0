"""The corpus by name: for each program that must be refused, or may now be written, its test.

`errors:family/case` is a program under `tests/errors` whose message is pinned and which has an
accepted neighbour; `file::test` is a test. What the reference system refuses and this language
allows is under `ALLOWED`, with the test that runs it.
"""

ACCEPTED = "tests/corpus/test_corpus_accepted.py"
LAUNCH = "tests/corpus/test_corpus_at_launch.py"
KEPT = "tests/corpus/test_corpus_kept.py"
HOLES = "tests/holes/test_holes_reference_kernels.py"

REFUSED: dict[str, str] = {
    # --- parameters ---
    "owned_tensor": "errors:signature/parameter_of_another_kind",
    "ref_to_other": "errors:signature/no_dtype",
    "mapped_by_ref": "errors:signature/output_inside_a_ref",
    # --- stores ---
    "store_to_readonly_tensor": "errors:ownership/store_to_ref",
    "store_via_ro_partition": "errors:ownership/store_through_partition",
    "store_wrong_tile_shape": "errors:types/wrong_tile_shape",
    "store_wrong_dtype": "errors:types/wrong_tile_dtype",
    "return_value_from_entry": "errors:syntax/return_of_a_value",
    # --- bounds ---
    "const_past_end": "errors:bounds/constant_past_the_end",
    "const_negative": "errors:bounds/negative_constant",
    "negative_loop_start": "errors:bounds/negative_loop_start",
    # --- where an index comes from ---
    "foreign_index": "errors:ownership/index_of_another_output",
    "third_partition_shared_map": "errors:ownership/third_output_of_a_shared_walk",
    "forged_swizzle_index": "errors:ownership/forged_index",
    "blockid_mapped_store": "errors:ownership/block_id_as_index",
    "composite_on_streamed_map": "errors:ownership/forged_index",
    "shared_maps_shape_mismatch": "errors:ownership/partners_of_different_tiles",
    "index_escapes_loop": "errors:ownership/index_kept_past_its_loop",
    "index_stored_in_container": "errors:ownership/index_of_an_ended_walk",
    "index_arith": "errors:ownership/index_arithmetic",
    # --- checks that are not allowed ---
    "deny_residual_access": "errors:bounds/denied_device_read_index",
    "deny_binding": "errors:bounds/denied_part_index",
    # --- preconditions ---
    "zero_divisor": "errors:bounds/require_divided_by_zero",
    "unknown_tensor": "errors:names/undefined_name",
    "non_literal_axis": "errors:types/tuple_indexed_at_run_time",
    "non_dim_call": "errors:bounds/require_of_a_device_value",
    # --- what is known when a kernel is compiled ---
    "num_tiles_dynamic_axis": "errors:types/axis_not_static",
    "num_tiles_axis_oob": "errors:types/axis_of_num_tiles",
    "reduce_dim_dynamic": "errors:types/reduce_axis_not_static",
    "reduce_axis_oob": "errors:types/reduce_axis_out_of_range",
    "dynamic_array_index": "errors:types/tuple_indexed_at_run_time",
    "const_shape_runtime_value": "errors:types/tile_shape_not_static",
    # --- operations ---
    "mixed_dtype_add": "errors:types/mixed_dtypes",
    "shape_mismatch_add": "errors:types/broadcast_mismatch",
    "mma_inner_mismatch": "errors:types/mma_inner_extents",
    "reshape_count_mismatch": "errors:types/reshape_count",
    "broadcast_incompatible": "errors:types/broadcast_to_mismatch",
    "permute_not_permutation": "errors:types/permute_not_a_permutation",
    "atomic_max_f32": "errors:types/accum_of_float_maxima",
    "unknown_hint_key": "errors:signature/unknown_option",
    "latency_at_entry": "errors:signature/unknown_option",
    # --- language ---
    "closure_value": "errors:syntax/function_as_a_value",
    "recursion": "errors:syntax/recursion",
    "if_tile_condition": "errors:types/if_on_a_tile",
    "undefined_name": "errors:names/undefined_name",
    "unsupported_import": "errors:syntax/import_statement",
    "non_global_static": "errors:names/object_from_outside",
    "shaped_global": "errors:names/tensor_from_outside",
    # --- our own ---
    "ro_view_of_mutable_reads_neighbour": f"{HOLES}::test_03_views_of_an_output_see_the_own_piece_only",
    "nested_nondivisible_with_grid": "errors:types/part_does_not_divide_the_piece",
    "load_tile_like_short_input": f"{HOLES}::test_01_reading_like_an_output_needs_as_many_tiles",
    "load_tile_unchecked_idx": f"{HOLES}::test_01_reading_at_any_index_is_checked",
    "floor_div_interval": f"{HOLES}::test_07_floor_division_of_a_negative_number_is_negative",
    "token_through_if": f"{HOLES}::test_05_order_goes_through_branches_and_loops",
    "token_through_plain_for": f"{HOLES}::test_05_order_goes_through_branches_and_loops",
    "fork_noninjective_index": f"{HOLES}::test_06_steps_that_collide_are_ordered",
    "swapped_heads_race": "errors:ownership/swapped_heads",
    "two_walks_of_one_output": "errors:ownership/two_ranges_of_one_output",
    "subrange_from_a_block_id": "errors:ownership/range_from_a_block_id",
    "subrange_under_a_block_dependent_if": "errors:ownership/range_by_an_if_that_blocks_take_differently",
    "subrange_that_varies_in_an_outer_loop": "errors:ownership/range_that_an_outer_loop_changes",
}

AT_LAUNCH: dict[str, str] = {
    "rank_shape_slab_mismatch": f"{LAUNCH}::test_rank_shape_and_slab_mismatch",
    "grid_mismatch": f"{LAUNCH}::test_grid_mismatch",
    "mapped_no_blocks": f"{LAUNCH}::test_mapped_with_no_block_more_than_tiles_and_an_empty_grid",
    "shared_maps_with_different_n": f"{LAUNCH}::test_shared_maps_with_different_numbers_of_blocks_or_tiles",
    "shared_maps_grid_mismatch": f"{LAUNCH}::test_shared_maps_with_different_numbers_of_blocks_or_tiles",
    "declared_eq_and_divisibility": f"{LAUNCH}::test_declared_equality_and_divisibility_violated",
    "derived_ceil": f"{ACCEPTED}::test_cross_tensor_gemm_undeclared",
    "block_id_grid_too_wide": f"{LAUNCH}::test_a_grid_that_is_too_wide_also_on_the_second_launch",
    "zero_extent": f"{LAUNCH}::test_an_axis_of_no_extent",
    "host_aliasing": f"{LAUNCH}::test_host_aliasing",
    "moved_from": f"{LAUNCH}::test_a_moved_tensor",
    "shared_storage": f"{LAUNCH}::test_storage_that_another_operation_holds",
}

ALLOWED: dict[str, str] = {
    "subrange_negative_start": "tests/accept/test_accept_walks.py::",
    "subrange_static_overflow": "tests/accept/test_accept_walks.py::",
    "subrange_len_below_minus1": "tests/accept/test_accept_walks.py::",
    "deny_subrange": "tests/accept/test_accept_walks.py::",
    "lt_operator": "tests/accept/test_accept_bounds.py::test_preconditions_on_what_a_launch_knows",
    "const_generic_divisor": "tests/accept/test_accept_bounds.py::test_preconditions_on_what_a_launch_knows",
}

CHECKED: dict[str, str] = {
    "persistent_gemm": f"{ACCEPTED}::test_persistent_gemm",
    "block_id_indexed_load_store": f"{ACCEPTED}::test_block_id_indexed_load_and_store",
    "plain_num_tiles_loops": f"{ACCEPTED}::test_plain_num_tiles_loops",
    "partition_mut_num_tiles_loop": f"{ACCEPTED}::test_partition_mut_with_a_num_tiles_loop",
    "cross_tensor_gemm_undeclared": f"{ACCEPTED}::test_cross_tensor_gemm_undeclared",
    "mapped_copy": f"{ACCEPTED}::test_mapped_copy_of_full_axes",
    "shared_map_dual_store": f"{ACCEPTED}::test_shared_map_dual_store",
    "const_if_index_identity": f"{ACCEPTED}::test_const_if_index_identity",
    "wrapping_identity_of_block_id": f"{ACCEPTED}::test_wrapping_identity_of_a_block_id",
    "runtime_scalar": f"{KEPT}::test_a_check_that_the_launch_can_make_is_made_there",
    "reassigned_index": f"{KEPT}::test_a_check_that_memory_decides_stays",
    "joined_block_id": f"{KEPT}::test_a_joined_block_id_is_compared_as_a_whole_or_in_the_kernel",
    "loop_carried_replacement": f"{KEPT}::test_a_check_that_memory_decides_stays",
    "twice_j_plus_one": f"{KEPT}::test_a_check_that_the_launch_can_make_is_made_there",
    "wrap_tainted": f"{KEPT}::test_no_proof_survives_a_wrap",
    "twice_the_block_id": f"{KEPT}::test_the_grid_decides_about_twice_a_block_id",
    "index_under_if": f"{KEPT}::test_an_access_under_an_if_constrains_no_launch_that_does_not_reach_it",
    "device_loaded_index": f"{KEPT}::test_a_check_that_memory_decides_stays",
}
