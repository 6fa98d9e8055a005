"""Pictures of plans: places and arrows by the reference model, numbers as in `explain`."""

import re
from xml.etree import ElementTree

import hypothesis
import pytest

import gpulayout as gl
from gpulayout.choices.explain import picture_facts
from gpulayout.pictures.plan_picture import WHOLE_PLACES, plan_figure
from tests.reference import tiled_numbers
from tests.support.effort import examples
from tests.support.strategies import pairs

PLANS = [
    ("f32[2,3]", "{0,1:PD(3,5)}"),
    ("f32[2,3]{0,1:PD(3,5)}", "{1,0}"),
    ("f32[4096,4096]", "{0,1}"),
    ("u8[3000,4000,3]", "{1,0,2}"),
    ("f32[1000,1000]", "{1,0:PD(1000,1024)}"),
    ("f32[70,65]", "{0,1}"),
    ("f32[8,8,8,8,8]", "{0,1,2,3,4}"),
    ("f32[16,256]", "{1,0:T(8,128)}"),
    ("f32[13,200]", "{1,0:T(8,128)}"),
    ("bf16[40,300]{1,0:T(8,128)(2,1)}", "{1,0}"),
    ("s4[3,4]{1,0:E(4)}", "{0,1:E(4)}"),
    ("f32[]", "{}"),
    ("f32[0,3]", "{0,1:PD(2,3)}"),
    ("f32[7]", "{0}"),
]


def figure_of(source, target):
    plan = gl.plan(source, target)
    return plan, plan_figure(plan.source, plan.target, picture_facts(plan.pieces))


def numbers(shape):
    """The logical number of the element in every place, or -1, by the reference model."""
    layout = shape.layout
    tiles = [tuple("*" if size is gl.COMBINE else size for size in tile) for tile in layout.tiles]
    return tiled_numbers(
        shape.dimensions, layout.minor_to_major, layout.padded_dimensions, tiles, layout.tail_padding_alignment
    ).tolist()


def check_moves(plan, figure):
    """Arrows join the places of the same element; every element of a shown place of the target has one."""
    source, target = numbers(plan.source), numbers(plan.target)
    shown = [[cell.place for cell in side.strip if cell] for side in (figure.source, figure.target)]
    for other, one in figure.source_of.items():
        assert source[one] == target[other] >= 0 and one in shown[0] and other in shown[1]
    assert list(figure.source_of) == [place for place in shown[1] if target[place] >= 0]
    for side, known in ((figure.source, source), (figure.target, target)):
        assert all(cell.is_element == (known[cell.place] >= 0) for cell in side.strip if cell)
        if side.shape.buffer_size <= WHOLE_PLACES and None not in side.strip:
            assert [cell.place for cell in side.strip] == list(range(side.shape.buffer_size))


@pytest.mark.parametrize("source, target", [pair for pair in PLANS if "4000" not in pair[0] and "4096" not in pair[0]])
def test_arrows_join_the_places_of_the_same_element(source, target):
    check_moves(*figure_of(source, target))


@hypothesis.given(pairs(max_elements=300))
@hypothesis.settings(max_examples=examples(60))
def test_arrows_of_random_plans(pair):
    check_moves(*figure_of(*pair))
    ElementTree.fromstring(gl.plan(*pair).draw().svg)


@pytest.mark.parametrize("source, target", PLANS)
def test_facts_are_those_of_explain(source, target):
    plan, figure = figure_of(source, target)
    explained = str(plan.explain())
    assert figure.facts[0] == f"reads {plan.bytes_read} bytes, writes {plan.bytes_written} bytes"
    for fact in figure.facts[1:]:
        assert fact in explained or "the largest of" in fact, fact
    if len(plan.pieces) > 1 and plan.move.place_count:
        share = f"{plan.pieces[0].move.bytes_written / plan.bytes_written:.1%}"
        assert (
            f"the launch is that of the largest of {len(plan.pieces)} pieces, {share} of the bytes written"
            in figure.facts
        )
    assert ("sectors of 32 bytes" in explained) == any("sectors of 32 bytes" in fact for fact in figure.facts)


@pytest.mark.parametrize("source, target", PLANS)
def test_the_svg_is_well_formed_deterministic_and_says_the_facts(source, target):
    plan, figure = figure_of(source, target)
    svg = plan.draw().svg
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert svg == gl.plan(source, target).draw().svg == plan._repr_svg_()
    assert set(figure.facts) <= set(texts)
    assert len(svg) < 120_000 and "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_two_long_shapes_stand_below_each_other():
    shape = gl.Shape("u8", (2,) * 40)
    svg = gl.plan(shape, gl.Layout.ascending(40)).draw().svg
    source, target = re.findall('gl-title gl-ink" x="16" y="(\\d+)">(.*?)<', svg)
    assert source[1].startswith("u8[2,2,") and target[1].startswith("→ u8[2,2,") and int(source[0]) < int(target[0])
    assert int(re.search('width="(\\d+)"', svg)[1]) < 1100


def test_text_has_the_places_of_the_source_in_the_target():
    picture = gl.plan("f32[2,3]", "{0,1}").draw()
    assert "│0│3│1│4│2│5│" in str(picture) and repr(picture) == picture.text
    plain = picture.as_text(width=40, ascii_only=True)
    assert plain.isascii() and max(map(len, plain.split("\n"))) <= 40


def test_pictures_are_saved_as_svg(tmp_path):
    picture = gl.plan("f32[2,3]", "{0,1}").draw()
    picture.save(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match="does not end in .svg"):
        picture.save(tmp_path / "plan.png")
