"""The public functions of the kernel language: signatures for type checkers, and documentation.

None has a body: the front end knows each by its object. They are declared by subject in the modules
of this folder and all offered here, which is where the rest of the package takes them from. In one
family the words are those of NumPy; where ours differ, the documentation says how.
"""

from tilewright.lang.functions.arithmetic import add, divide, multiply, subtract
from tilewright.lang.functions.choosing import clamp, maximum, minimum, where
from tilewright.lang.functions.creation import arange, full, ones, rand, zeros
from tilewright.lang.functions.launch import block_id, cdiv, num_blocks, require, static_assert
from tilewright.lang.functions.maths import (
    abs,
    atan2,
    ceil,
    cos,
    cosh,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    mulhi,
    pow,
    rsqrt,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from tilewright.lang.functions.matrix import mma
from tilewright.lang.functions.reductions import max, min, sum

__all__ = [
    "abs",
    "add",
    "arange",
    "atan2",
    "block_id",
    "cdiv",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "divide",
    "exp",
    "exp2",
    "floor",
    "fma",
    "full",
    "log",
    "log2",
    "max",
    "maximum",
    "min",
    "minimum",
    "mma",
    "mulhi",
    "multiply",
    "num_blocks",
    "ones",
    "pow",
    "rand",
    "require",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "static_assert",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "where",
    "zeros",
]
