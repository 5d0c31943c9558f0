"""The tensors that the check takes library functions to hold are those that operations hold."""

import inspect

import numpy as np
import pytest

import tilewright as tw
from tilewright import f32, i32, kernels
from tilewright.lint.library import HELD, library_function

SIZES = ((1, 8), (3, 7), (130, 1000))


def dense(*shape, dtype=f32):
    return tw.zeros(shape, dtype)


def _arguments(rows, columns):
    """Arguments of each function for one size, and its outputs."""
    x, y, z, t = (dense(rows, columns) for _ in range(4))
    weight, bias = dense(columns), dense(columns)
    labels, loss, sums, slope = dense(rows, dtype=i32), dense(rows), dense(rows), dense(rows)
    heads, turned = dense(2, 3, rows, 8), dense(2, 3, rows, 8)
    return {
        "add": ((x, y), {"out": z}),
        "add_rms_norm": ((x, y, weight), {"out": (z, t)}),
        "cross_entropy": ((x, labels), {"out": (loss, sums)}),
        "cross_entropy_gradient": ((x, labels, sums, slope), {"out": z}),
        "dropout": ((x, 0.5), {"seed": 1, "out": z}),
        "embedding": ((labels, dense(9, columns)), {"out": z}),
        "gelu": ((x,), {"out": z}),
        "layer_norm": ((x, weight, bias), {"out": z}),
        "rms_norm": ((x, weight), {"out": z}),
        "rope": ((heads, dense(rows, 4), dense(rows, 4)), {"out": turned}),
        "silu_mul": ((x, y), {"out": z}),
        "softmax": ((x,), {"out": z}),
        "transpose": ((x,), {"out": dense(columns, rows)}),
    }


@pytest.mark.parametrize("name", sorted(HELD))
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_tensor_is_held(name, size):
    """A tensor that is held for writing is refused to readers, one for reading to writers."""
    with tw.device("cpu"):
        plain, named = _arguments(*size)[name]
        function = getattr(kernels, name)
        operation = function(*plain, **named)
        given = inspect.signature(function).bind(*plain, **named).arguments
        for parameter in library_function(name, function).parameters:
            value = given.get(parameter.name)
            if parameter.access is None or value is None or np.isscalar(value):
                continue
            for tensor in value if isinstance(value, tuple) else (value,):
                with pytest.raises(tw.BorrowError):
                    tw.fill(tensor, 0)
                if parameter.access.value == "write":
                    with pytest.raises(tw.BorrowError):
                        tensor.numpy()
        operation.close()


def test_the_table_names_functions_of_the_library():
    assert set(kernels.__all__) >= HELD


def test_functions_that_give_no_operation_are_left_alone():
    assert library_function("decode_parts", kernels.decode_parts) is None
    assert library_function("sum", kernels.sum).parameters is None
