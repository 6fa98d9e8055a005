"""`pack`, `unpack`, `view` and `relayout` take the same forms of a layout, by position and by the same names.

A whole shape is enough everywhere.  A layout without a shape takes the sizes and the element type from an N-d array; a
flat buffer has no sizes to give, and the error says what to write.
"""

import inspect

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import refusal

SIZES = (2, 3, 4, 5)
LAYOUT = "{1,3,2,0}"  # of images N C H W whose channels are next to each other
WHOLE = f"f32[2,3,4,5]{LAYOUT}"
FORMS = {
    "a Shape": gl.parse_shape(WHOLE),
    "its text": WHOLE,
    "a Layout": gl.parse_layout(LAYOUT),
    "its text without sizes": LAYOUT,
    "a name": "torch:channels_last",
    "another library's text": "cute:(2,3,4,5):(60,1,15,3)",
    "a name by letters": "named:NHWC:NCHW",
    "a pattern": "n c h w -> n h w c",
    "padded": "{1,3,2,0:PD(2,3,4,5)}",
    "tiles that cut nothing": "{1,3,2,0:T(3)}",
}
WITHOUT_SIZES = {name: form for name, form in FORMS.items() if not name.startswith(("a Shape", "its text"))} | {
    "its text without sizes": LAYOUT
}
LOGICAL = np.arange(120, dtype=np.float32).reshape(SIZES)


def in_memory():
    """The logical array, in memory as the layout says, and its flat buffer."""
    flat = LOGICAL.transpose(0, 2, 3, 1).copy().reshape(-1)
    return flat.reshape(2, 4, 5, 3).transpose(0, 3, 1, 2), flat


# What each function makes of the layout: the same array, or its buffer in another layout.
FUNCTIONS = {
    "pack": lambda array, form: gl.pack(LOGICAL, form),
    "unpack": lambda array, form: gl.unpack(array, form),
    "view": lambda array, form: gl.view(array, form),
    "relayout, source": lambda array, form: gl.relayout(array, form, "f32[2,3,4,5]"),
    "relayout, target": lambda array, form: gl.relayout(LOGICAL, "C", form),
    "relayout_many": lambda array, form: gl.relayout_many([(array, form, "C")])[0],
}
KEYWORDS = {
    "pack": lambda array, form: gl.pack(array=LOGICAL, shape=form),
    "unpack": lambda array, form: gl.unpack(buffer=array, shape=form),
    "view": lambda array, form: gl.view(array, shape=form),
    "relayout, source": lambda array, form: gl.relayout(buffer=array, source=form, target="f32[2,3,4,5]"),
    "relayout, target": lambda array, form: gl.relayout(buffer=LOGICAL, source="C", target=form),
}


def expected_of(function):
    return in_memory()[1] if function in ("pack", "relayout, target") else LOGICAL


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_takes_every_form(function, form):
    if (function, form) == ("view", "a pattern"):
        pytest.skip("a pattern given to view asks for the array after it, as `transpose` does")
    for calls in (FUNCTIONS, KEYWORDS):
        if function in calls:
            found = calls[function](in_memory()[0], FORMS[form])
            assert np.array_equal(found.reshape(-1), expected_of(function).reshape(-1))


def test_the_parameters_have_the_same_names():
    names = {
        function: [*inspect.signature(getattr(gl, function)).parameters][:3]
        for function in ("pack", "unpack", "view", "relayout")
    }
    assert names["pack"][:2] == ["array", "shape"] and names["relayout"] == ["buffer", "source", "target"]
    assert names["unpack"][:2] == names["view"][:2] == ["buffer", "shape"]


@pytest.mark.parametrize("function", ("unpack", "view", "relayout, source"))
def test_a_view_costs_nothing_and_a_copy_is_one(function):
    array, flat = in_memory()
    found = FUNCTIONS[function](array, LAYOUT)
    assert np.shares_memory(found, flat) == (function == "view")
    if function == "view":
        assert found.strides == array.strides and found.shape == SIZES


def test_arrays_of_every_executor_and_of_other_libraries(executor):
    array = executor.array(LOGICAL)
    assert executor.host(gl.unpack(array, "C")).tolist() == LOGICAL.tolist()
    assert executor.host(gl.relayout(array, "{3,2,1,0}", LAYOUT)).tolist() == in_memory()[1].tolist()
    assert executor.host(gl.view(array, gl.Layout((3, 2, 1, 0)))).tolist() == LOGICAL.tolist()


def test_tensors_come_back_as_tensors_with_their_own_element_type():
    torch = pytest.importorskip("torch")
    images = torch.arange(120, dtype=torch.bfloat16).reshape(SIZES).to(memory_format=torch.channels_last)
    rows = gl.unpack(images, "torch:channels_last")
    assert rows.dtype == torch.bfloat16 and rows.is_contiguous() and torch.equal(rows, images)
    assert torch.equal(gl.relayout(images, "torch:channels_last", "C"), images.flatten())
    seen = gl.view(images, "torch:channels_last")
    assert seen.data_ptr() == images.data_ptr() and torch.equal(seen, images)


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    array = jax.numpy.asarray(LOGICAL)
    assert isinstance(gl.relayout(array, "C", LAYOUT), jax.Array)
    assert gl.relayout(array, "C", LAYOUT).tolist() == in_memory()[1].tolist()


def test_a_scalar_has_its_sizes_too():
    assert gl.unpack(np.float32(3), "{}").shape == () and gl.relayout(np.array(3.0), "C", "{}").tolist() == [3.0]


def test_padding_around_an_array_is_read_over():
    room = np.full((3, 5), 99, np.int16)
    inner = room[:2, :3]
    inner[...] = np.arange(6).reshape(2, 3)
    assert gl.unpack(inner, "{1,0:PD(3,5)}").tolist() == inner.tolist()
    assert gl.relayout(inner, "{1,0:PD(3,5)}", "{0,1}").tolist() == [0, 3, 1, 4, 2, 5]


def test_an_array_that_lies_otherwise_is_refused():
    for call in (
        lambda: gl.unpack(LOGICAL, LAYOUT),
        lambda: gl.view(LOGICAL, LAYOUT),
        lambda: gl.relayout(LOGICAL, "torch:channels_last", "C"),
    ):
        with pytest.raises(BufferError, match=r"not a buffer of f32\[2,3,4,5\]\{1,3,2,0\}"):
            call()


# ---- flat buffers ----------------------------------------------------------------------------------------------------


def messages_for(form):
    text = repr(form) if isinstance(form, str) else f"'{form}'"
    shape = "'f32[2,3]'" if text in ("'C'", "'F'") else "shape" if "cute" in text else "'f32[1,3,224,224]'"
    example = "'f32[2,3]{0,1}'" if "{" in text else f"gl.plan({shape}, {text}).target"
    return (
        f"{text} is only a layout, and a flat buffer does not say the sizes: write the whole shape, such as {example}"
    )


@pytest.mark.parametrize("form", WITHOUT_SIZES)
def test_a_flat_buffer_needs_the_whole_shape(form):
    flat, value = in_memory()[1], WITHOUT_SIZES[form]
    calls = {
        "shape": [lambda: gl.unpack(flat, value), lambda: gl.view(flat, value)],
        "source": [lambda: gl.relayout(flat, value, "C")],
        "job 0: source": [lambda: gl.relayout_many([(flat, value, "C")])],
    }
    if form == "a pattern":
        del calls["shape"][1]
    for role, each in calls.items():
        for call in each:
            with pytest.raises(gl.LayoutError) as caught:
                call()
            assert str(caught.value) == f"{role} {messages_for(value)}"


def test_dask_s_buffers_are_flat():
    da = pytest.importorskip("dask.array")
    flat = da.from_array(in_memory()[1], chunks=50)
    for value in WITHOUT_SIZES.values():
        for role, call in (
            ("shape", lambda: gl.dask.unpack(flat, value)),
            ("source", lambda: gl.dask.relayout(flat, value, "C")),
        ):
            with pytest.raises(gl.LayoutError) as caught:
                call()
            assert str(caught.value) == f"{role} {messages_for(value)}"


def test_a_file_with_a_buffer_is_flat_too(tmp_path):
    np.save(tmp_path / "flat.npy", in_memory()[1])
    message = refusal("unpack", str(tmp_path / "flat.npy"), str(tmp_path / "out.npy"), "--from", "C")
    assert "is only a layout" in message and "write the whole shape" in message


def test_text_that_is_no_layout_is_named():
    for flat_or_not in in_memory():
        with pytest.raises(gl.LayoutError, match="^'NHWC' is neither a layout, such as"):
            gl.unpack(flat_or_not, "NHWC")
        with pytest.raises(gl.LayoutError, match="has no c on the right"):
            gl.relayout(flat_or_not, "n c h w -> n h w", "C")
