"""The public functions of the kernel language: signatures for type checkers, and documentation.

None has a body: the front end knows each by its object. They are declared by subject in the modules
of this folder and all offered here, which is where the rest of the package takes them from. In one
family the words are those of NumPy; where ours differ, the documentation says how.
"""

from tilewright.lang.functions.arithmetic import add, divide, multiply, subtract
from tilewright.lang.functions.bits import bitcast, pack, unpack
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
from tilewright.lang.functions.matrix import mma, mma_scaled
from tilewright.lang.functions.reductions import (
    all,
    any,
    argmax,
    argmin,
    cumprod,
    cumsum,
    max,
    min,
    prod,
    reduce,
    scan,
    sum,
)
from tilewright.lang.functions.shapes import cat, extract, insert

__all__ = [
    "abs",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "atan2",
    "bitcast",
    "block_id",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "divide",
    "exp",
    "exp2",
    "extract",
    "floor",
    "fma",
    "full",
    "insert",
    "log",
    "log2",
    "max",
    "maximum",
    "min",
    "minimum",
    "mma",
    "mma_scaled",
    "mulhi",
    "multiply",
    "num_blocks",
    "ones",
    "pack",
    "pow",
    "prod",
    "rand",
    "reduce",
    "require",
    "rsqrt",
    "scan",
    "sin",
    "sinh",
    "sqrt",
    "static_assert",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "unpack",
    "where",
    "zeros",
]
