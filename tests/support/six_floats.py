"""What calls do with an array of six floats that is not plain memory: one error, or a result of the same library."""

import pytest

import gpulayout as gl

CALLS = {
    "pack": lambda given: gl.pack(given, "{0}"),
    "relayout": lambda given: gl.relayout(given, "f32[6]", "{0}"),
    "transpose": lambda given: gl.transpose(given),
    "relayout_many": lambda given: gl.relayout_many([(given, "f32[6]", "{0}")]),
    "shape_of": lambda given: gl.shape_of(given),
    "view": lambda given: gl.view(given, "f32[6]"),
    "linearize": lambda given: gl.linearize(given, "f32[6]"),
}
# Those that are traced: no memory is needed.
TRACED = ("pack", "relayout", "transpose", "relayout_many")


def refused(given, error, text, but=()):
    """Every call raises this error, except some."""
    for name, call in CALLS.items():
        if name not in but:
            with pytest.raises(error) as caught:
                call(given)
            assert text in str(caught.value), name


def traced(given, text):
    """The traced calls give results of the library of `given`; the others say what to do."""
    for name in TRACED:
        found = CALLS[name](given)
        found = found[0] if name == "relayout_many" else found
        assert isinstance(found, type(given)) and found.ndim == 1 and found.dtype == given.dtype, name
    with pytest.raises(TypeError, match="linearize cannot raise an error for an index inside a traced function"):
        CALLS["linearize"](given)
    others = (*TRACED, "linearize")
    refused(given, TypeError, text, others)
    refused(
        given,
        TypeError,
        "gl.transpose, pack, unpack, relayout, relayout_many, transpose_many and plans work there",
        others,
    )
