"""The corpus by name: for each program that must be refused, or may now be written, its test.

`errors:family/case` is a program under `tests/errors`, whose message is pinned and which has an
accepted neighbour; anything else is `file::test`, files counted from `tests`. Names are those of
the reference system's corpus, in its order, then ours.
"""

ACCEPTED = "corpus/test_corpus_accepted.py::test_"
LAUNCH = "corpus/test_corpus_at_launch.py::test_"
KEPT = "corpus/test_corpus_kept.py::test_"
HOLES = "holes/test_holes_reference_kernels.py::test_"
FORMS = "holes/test_holes_reference_forms.py::test_"
PIECES = "language/test_language_pieces.py::test_"
WALKS = "language/test_language_walks.py::test_"
REQUIRED = "accept/test_accept_bounds.py::test_preconditions_on_what_a_launch_knows"

# fmt: off
REFUSED = {
    # parameters
    "owned_tensor": "errors:signature/parameter_of_another_kind",
    "ref_to_other": "errors:signature/no_dtype",
    "mapped_by_ref": "errors:signature/output_inside_a_ref",
    "ptr_in_safe_entry": "errors:unsafe/pointer_in_a_safe_kernel",
    "const_ptr": "errors:unsafe/pointer_with_dims",
    "unchecked_safe_fn": "errors:unsafe/load_unchecked_outside",
    # stores
    "store_to_readonly_tensor": "errors:ownership/store_to_ref",
    "store_via_ro_partition": "errors:ownership/store_through_partition",
    "store_wrong_tile_shape": "errors:types/wrong_tile_shape",
    "store_wrong_dtype": "errors:types/wrong_tile_dtype",
    "return_value_from_entry": "errors:syntax/return_of_a_value",
    # bounds
    "const_past_end": "errors:bounds/constant_past_the_end",
    "const_negative": "errors:bounds/negative_constant",
    "negative_loop_start": "errors:bounds/negative_loop_start",
    "owned_const_out_of_grid": "errors:bounds/part_past_the_piece",
    # where an index comes from
    "foreign_index": "errors:ownership/index_of_another_output",
    "third_partition_shared_map": "errors:ownership/third_output_of_a_shared_walk",
    "forged_swizzle_index": "errors:ownership/forged_index",
    "blockid_mapped_store": "errors:ownership/block_id_as_index",
    "composite_on_streamed_map": "errors:ownership/index_arithmetic",
    "wrong_owned_component": "errors:ownership/piece_of_another_output",
    "rank1_grouped_map": "launch/test_launch_arguments.py::test_blocks_and_groups_are_positive",
    "grouped_leading_axis":
        "launch/test_launch_arguments.py::test_only_the_last_two_axes_are_grouped",
    "shared_maps_shape_mismatch": "errors:ownership/partners_of_different_tiles",
    "index_escapes_loop": "errors:ownership/index_kept_past_its_loop",
    "index_stored_in_container": "errors:ownership/index_of_an_ended_walk",
    "index_arith": "errors:ownership/index_arithmetic",
    "index_from_other_kernel":
        "holes/test_holes_ownership.py::test_an_index_is_only_what_its_own_walk_gave",
    # checks that are not allowed
    "deny_residual_access": "errors:bounds/denied_device_read_index",
    "deny_binding": "errors:bounds/denied_part_index",
    # preconditions
    "zero_divisor": "errors:bounds/require_divided_by_zero",
    "unknown_tensor": "errors:names/undefined_name",
    "non_literal_axis": "errors:types/tuple_indexed_at_run_time",
    "non_dim_call": "errors:bounds/require_of_a_device_value",
    # what is known when a kernel is compiled
    "num_tiles_dynamic_axis": "errors:types/axis_not_static",
    "num_tiles_axis_oob": "errors:types/axis_of_num_tiles",
    "reduce_dim_dynamic": "errors:types/reduce_axis_not_static",
    "reduce_axis_oob": "errors:types/reduce_axis_out_of_range",
    "dynamic_array_index": "errors:types/tuple_indexed_at_run_time",
    "const_shape_runtime_value": "errors:types/tile_shape_not_static",
    # operations
    "mixed_dtype_add": "errors:types/mixed_dtypes",
    "shape_mismatch_add": "errors:types/broadcast_mismatch",
    "mma_inner_mismatch": "errors:types/mma_inner_extents",
    "reshape_count_mismatch": "errors:types/reshape_count",
    "broadcast_incompatible": "errors:types/broadcast_to_mismatch",
    "permute_not_permutation": "errors:types/permute_not_a_permutation",
    "cat_mismatch": "errors:types/cat_of_different_shapes",
    "extract_not_dividing": "errors:types/part_that_does_not_divide",
    "fp4_pack_odd": "errors:types/pack_of_half_a_byte",
    "fp4_unpack_count": "errors:types/unpack_of_too_few_bytes",
    "atomic_max_f32": "errors:types/accum_of_float_maxima",
    "atomic_weak": "errors:unsafe/atomic_weak",
    "store_acquire": "errors:unsafe/store_acquire",
    "load_release": "errors:unsafe/load_release",
    "red_view_non_relaxed": "errors:syntax/unknown_keyword_of_a_method",
    "latency_at_entry": "errors:signature/hint_of_a_load",
    "unknown_hint_key": "errors:signature/unknown_option",
    # what only unsafe code may do
    "unsafe_load_unchecked": "errors:unsafe/load_unchecked_outside",
    "unsafe_store_unchecked": "errors:unsafe/store_unchecked_outside",
    "unsafe_load_of_a_part": "errors:unsafe/load_part_unchecked_outside",
    "unsafe_pointer_load": "errors:unsafe/pointer_load_outside",
    "unsafe_pointer_store": "errors:unsafe/pointer_store_outside",
    "unsafe_pointer_atomic": "errors:unsafe/pointer_atomic_outside",
    "unsafe_pointer_cas": "errors:unsafe/pointer_cas_outside",
    "unsafe_pointer_arithmetic": "errors:unsafe/pointer_arithmetic_outside",
    "unsafe_assume_div_by": "errors:unsafe/assume_divisible_outside",
    "unsafe_assume_bounds": "errors:unsafe/assume_bounds_outside",
    "unsafe_assume": "errors:unsafe/assume_outside",
    "unsafe_int_to_ptr": "errors:unsafe/pointer_from_a_number",
    "unsafe_context_is_lexical": "errors:unsafe/block_of_the_caller",
    "unsafe_launch": "errors:unsafe/unsafe_kernel_called_as_safe",
    # language
    "closure_value": "errors:syntax/function_as_a_value",
    "recursion": "errors:syntax/recursion",
    "while_tile_condition": "errors:types/while_on_a_tile",
    "if_tile_condition": "errors:types/if_on_a_tile",
    "undefined_name": "errors:names/undefined_name",
    "unsupported_import": "errors:syntax/import_statement",
    "non_global_static": "errors:names/object_from_outside",
    "shaped_global": "errors:names/tensor_from_outside",
    "print_placeholder_mismatch": "errors:syntax/print_in_a_wrong_format",
    "assert_non_literal_msg": "errors:syntax/message_of_a_value",
    # our own
    "ro_view_of_mutable_reads_neighbour":
        f"{HOLES}03_views_of_an_output_see_the_own_piece_only",
    "nested_nondivisible_with_grid": "errors:types/part_does_not_divide_the_piece",
    "load_tile_like_short_input": f"{HOLES}01_reading_like_an_output_needs_as_many_tiles",
    "load_tile_unchecked_idx": f"{HOLES}01_reading_at_any_index_is_checked",
    "floor_div_interval": f"{HOLES}07_floor_division_of_a_negative_number_is_negative",
    "token_through_if": f"{HOLES}05_order_goes_through_branches_and_loops",
    "token_through_plain_for": f"{HOLES}05_order_goes_through_branches_and_loops",
    "token_through_while": f"{FORMS}05_order_goes_through_a_while",
    "fork_noninjective_index": f"{HOLES}06_steps_that_collide_are_ordered",
    "extract_dynamic_index": f"{FORMS}14_a_part_of_a_tile_is_one_that_it_has",
    "swapped_heads_race": "errors:ownership/swapped_heads",
    "two_walks_of_one_output": "errors:ownership/two_ranges_of_one_output",
    "subrange_from_a_block_id": "errors:ownership/range_from_a_block_id",
    "subrange_under_a_block_dependent_if":
        "errors:ownership/range_by_an_if_that_blocks_take_differently",
    "subrange_that_varies_in_an_outer_loop": "errors:ownership/range_that_an_outer_loop_changes",
}

REFUSED_AT_LAUNCH = {
    "rank_shape_slab_mismatch": f"{LAUNCH}rank_shape_and_slab_mismatch",
    "grid_mismatch": f"{LAUNCH}grid_mismatch",
    "grid_beyond_a_prefix": "launch/test_launch_grids.py::test_a_prefix_has_a_piece_for_each_block",
    "no_grid":
        "launch/test_launch_grids.py::test_without_an_exact_output_the_call_gives_the_grid",
    "mapped_no_blocks": f"{LAUNCH}mapped_with_no_block_more_than_tiles_and_an_empty_grid",
    "shared_maps_with_different_n":
        f"{LAUNCH}shared_maps_with_different_numbers_of_blocks_or_tiles",
    "shared_maps_static_grid_mismatch":
        f"{LAUNCH}shared_maps_with_different_numbers_of_blocks_or_tiles",
    "declared_eq_and_divisibility": f"{LAUNCH}declared_equality_and_divisibility_violated",
    "derived_ceil": f"{ACCEPTED}cross_tensor_gemm_undeclared",
    "block_id_grid_too_wide": f"{LAUNCH}a_grid_that_is_too_wide_also_on_the_second_launch",
    "zero_extent": f"{LAUNCH}an_axis_of_no_extent",
    "host_aliasing": f"{LAUNCH}host_aliasing",
    "moved_from": f"{LAUNCH}a_moved_tensor",
    "shared_storage": f"{LAUNCH}storage_that_another_operation_holds",
}

# What the reference system refuses and this language allows.
ALLOWED = {
    "nested_return": f"{FORMS}12_20_return_and_break_do_what_they_say",
    "break_in_for": f"{FORMS}12_20_return_and_break_do_what_they_say",
    "subrange_with_owned": f"{ACCEPTED}a_range_beside_an_owned_axis",
    "mutable_rank4": f"{PIECES}outputs_of_higher_ranks",
    "mutable_dynamic_dim": f"{PIECES}a_whole_axis_is_written_in_parts_of_any_power_of_two",
    "mapped_rank4": f"{WALKS}ranges_of_every_kind",
    "all_owned_map": f"{PIECES}every_axis_may_be_whole",
    "subrange_negative_start": f"{WALKS}ranges_of_every_kind",
    "subrange_static_overflow": f"{WALKS}ranges_of_every_kind",
    "subrange_len_below_minus1": f"{WALKS}ranges_of_every_kind",
    "deny_subrange":
        "accept/test_accept_walks.py::"
        "test_a_range_from_dims_scalars_and_loads_at_places_that_all_blocks_share",
    "deny_shared_grid": f"{ACCEPTED}shared_map_dual_store",
    "lt_operator": REQUIRED,
    "const_generic_divisor": REQUIRED,
}

ACCEPTED_WITHOUT_CHECKS = {
    "persistent_gemm": f"{ACCEPTED}persistent_gemm",
    "block_id_indexed_load_store": f"{ACCEPTED}block_id_indexed_load_and_store",
    "plain_num_tiles_loops": f"{ACCEPTED}plain_num_tiles_loops",
    "partition_mut_num_tiles_loop": f"{ACCEPTED}partition_mut_with_a_num_tiles_loop",
    "cross_tensor_gemm_undeclared": f"{ACCEPTED}cross_tensor_gemm_undeclared",
    "mapped_copy": f"{ACCEPTED}mapped_copy_of_full_axes",
    "owned_axis_composite": f"{ACCEPTED}owned_axis_composite",
    "shared_map_dual_store": f"{ACCEPTED}shared_map_dual_store",
    "const_if_index_identity": f"{ACCEPTED}const_if_index_identity",
    "wrapping_identity_of_block_id": f"{ACCEPTED}wrapping_identity_of_a_block_id",
}

CHECKED = {
    "runtime_scalar": f"{KEPT}a_check_that_the_launch_can_make_is_made_there",
    "reassigned_index": f"{KEPT}a_check_that_memory_decides_stays",
    "joined_block_id": f"{KEPT}a_joined_block_id_is_compared_as_a_whole_or_in_the_kernel",
    "loop_carried_replacement": f"{KEPT}a_check_that_memory_decides_stays",
    "twice_j_plus_one": f"{KEPT}a_check_that_the_launch_can_make_is_made_there",
    "wrap_tainted": f"{KEPT}no_proof_survives_a_wrap",
    "twice_the_block_id": f"{KEPT}the_grid_decides_about_twice_a_block_id",
    "index_under_if":
        f"{KEPT}an_access_under_an_if_constrains_no_launch_that_does_not_reach_it",
    "step_by_walk_from_pid":
        f"{KEPT}a_walk_from_the_block_id_in_steps_of_the_grid_needs_no_check",
    "device_loaded_index": f"{KEPT}a_check_that_memory_decides_stays",
}
# fmt: on

EVERY_CASE = {**REFUSED, **REFUSED_AT_LAUNCH, **ALLOWED, **ACCEPTED_WITHOUT_CHECKS, **CHECKED}
