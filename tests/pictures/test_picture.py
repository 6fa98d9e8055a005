"""Pictures as users get them: drawn from a shape or a layout, printed, saved, shown in a notebook."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.pictures.draw import example
from tests.support.strategies import any_layouts

PADDED = gl.parse_shape("f32[2,3]{0,1:PD(3,5)}")


def test_a_picture_prints_its_text_and_a_notebook_shows_its_svg():
    picture = PADDED.draw()
    assert str(picture) == repr(picture) == picture.text == picture.as_text()
    assert "┌" in picture.text and "┌" not in picture.as_text(ascii_only=True)
    assert PADDED._repr_svg_() == picture._repr_svg_() == picture.svg and picture.svg.startswith("<svg ")


def test_a_picture_is_saved_as_its_svg(tmp_path):
    path = tmp_path / "picture.svg"
    PADDED.draw().save(path)
    PADDED.draw().save(str(path))
    assert path.read_bytes() == PADDED.draw().svg.encode()


@pytest.mark.parametrize("name", ["picture.png", "picture", "svg"])
def test_other_kinds_of_files_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name}' does not end in .svg: pictures are saved as SVG$"):
        PADDED.draw().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_names_are_drawn():
    assert "│a│d│░│" not in PADDED.draw().text and "│a │d │░0│b │" in PADDED.draw(elements="abcdef").text
    with pytest.raises(gl.LayoutError, match="^elements has 5 entries for .*: it has 6 elements$"):
        PADDED.draw(elements="abcde")
    for names in (3, iter("abcdef"), {"a"}):
        with pytest.raises(TypeError, match="^elements must be a sequence with a name for every element, not "):
            PADDED.draw(elements=names)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_names_of_any_text_leave_the_grid_whole(ascii_only):
    shape = gl.parse_shape("f32[2,3]")
    plain = shape.draw(elements=["12345678"] * 6).as_text(ascii_only=ascii_only)
    names = ["a\nb", "\x1b[31mred", "\x9b1A", "\u202eabc", "\ud800", "activation_0"]
    text = shape.draw(elements=names).as_text(ascii_only=ascii_only)
    assert [len(line.rstrip()) for line in text.splitlines()] == [len(line.rstrip()) for line in plain.splitlines()]
    assert all(map(str.isprintable, text.splitlines())) and "activa.. 5" in text
    text.encode()


# ---- layouts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{}", "f32[]"),
        ("{1,0}", "f32[3,4]{1,0}"),
        ("{1,3,2,0}", "f32[2,4,2,3]{1,3,2,0}"),
        ("{1,0:T(8,128)(2,1)}", "f32[12,192]{1,0:T(8,128)(2,1)}"),
        ("{1,0:T(*,4)}", "f32[3,6]{1,0:T(*,4)}"),
        ("{0,1:PD(3,5)PV(lowest)}", "f32[2,4]{0,1:PD(3,5)PV(lowest)}"),
        ("{0:E(4)}", "u4[4]{0:E(4)}"),
        ("{0:PD(3)PV(1+2j)}", "c64[2]{0:PD(3)PV(1+2j)}"),
        ("{0:PD(3)PV(1e+300)}", "f64[2]{0:PD(3)PV(1e+300)}"),
        ("{4,3,2,1,0}", "f32[1,2,2,3,4]{4,3,2,1,0}"),
    ],
)
def test_a_layout_is_drawn_with_an_example(text, expected):
    layout = gl.parse_layout(text)
    assert str(example(layout)) == expected
    assert layout.draw().svg == layout._repr_svg_() == gl.parse_shape(expected).draw().svg


def test_a_layout_is_drawn_with_given_dimensions():
    layout = gl.Layout((0, 1))
    assert layout.draw((2, 3)).text == gl.parse_shape("f32[2,3]{0,1}").draw().text
    with pytest.raises(gl.LayoutError):
        layout.draw((2, 3, 4))


@given(st.integers(0, 4).flatmap(lambda rank: any_layouts((1000,) * rank)))
def test_a_notebook_shows_every_layout_or_its_text(layout):
    assert layout._repr_svg_() is None or layout._repr_svg_().startswith("<svg ")


def test_a_layout_without_an_example_shows_its_text():
    assert gl.Layout((0,), tiles=[(1 << 40,), (1 << 40, 1)])._repr_svg_() is None
