"""Arguments of the wrong kind: not a container, or flags that do not fit.  The message names the argument."""

import math

import numpy as np
import pytest

import gpulayout as gl

CASES = {
    "flags that are not a sequence": (
        lambda: gl.Shape("f32", (2, 3), dynamic_dimensions=True),
        TypeError,
        "dynamic_dimensions True is not a sequence of True and False",
    ),
    "flags that are numbers": (
        lambda: gl.Shape("f32", (2, 3), dynamic_dimensions=(0, 1)),
        TypeError,
        "dynamic_dimensions (0, 1) is not a sequence of True and False",
    ),
    "one flag for two dimensions": (
        lambda: gl.Shape("f32", (2, 3), dynamic_dimensions=(True,)),
        gl.LayoutError,
        "dynamic_dimensions (True,) has 1 entry",
    ),
    "a tuple's parts that are not a sequence": (lambda: gl.xla.TupleShape(3), TypeError, "shapes 3 is"),
    "split configurations that are not a sequence": (
        lambda: gl.Layout((1, 0), split_configs=3),
        TypeError,
        "split_configs 3 is not a sequence of split configurations",
    ),
    "a split configuration that is not a pair": (
        lambda: gl.Layout((1, 0), split_configs=((0, (1,), 2),)),
        TypeError,
        "split_configs",
    ),
    "a padded dimension without a bound": (
        lambda: gl.Shape("f32", (gl.UNBOUNDED,), gl.Layout((0,), padded_dimensions=(4,))),
        gl.LayoutError,
        "dimension 0",
    ),
    "a number that overflows on the way to a Python float": (
        lambda: gl.Layout((0,), padded_dimensions=(4,), padding_value=np.longdouble("1e4000")),
        gl.LayoutError,
        "is larger than any element type can hold",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    make, kind, words = CASES[name]
    if "overflows" in name and np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("a long double is a double here")
    with pytest.raises(kind) as error:
        make()
    assert words in str(error.value)


def test_infinity_itself_is_a_pad_value():
    assert gl.Layout((0,), padded_dimensions=(4,), padding_value=np.longdouble("inf")).padding_value == math.inf
