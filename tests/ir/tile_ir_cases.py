"""One or more programs for every op of Tile IR: the table behind the tests of the IR layers.

A case adds its op to an entry and gives it back. An op without a case fails `test_ir_every_op`.
"""

from __future__ import annotations

from tile_ir_addresses import address_cases
from tile_ir_elementwise import conversion_cases, float_cases, integer_cases, shape_cases
from tile_ir_memory import pointer_cases, view_cases
from tile_ir_programs import Case
from tile_ir_regions import combining_cases, control_cases
from tile_ir_views import other_view_cases

CASES: tuple[Case, ...] = (
    *float_cases(),
    *integer_cases(),
    *conversion_cases(),
    *shape_cases(),
    *view_cases(),
    *other_view_cases(),
    *address_cases(),
    *pointer_cases(),
    *combining_cases(),
    *control_cases(),
)
