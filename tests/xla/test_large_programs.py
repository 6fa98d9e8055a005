"""Programs of very many different shapes: what is kept of each, and that all are read as alone."""

import random
import tracemalloc

import pytest

import gpulayout as gl
from gpulayout.xla import find_copies, hlo
from gpulayout.xla.hlo_results import find_results

LAYOUTS = ["", "{1,0}", "{0,1}", "{1,0:T(8,128)}", "{1,0:T(8,128)(4,1)}", "{0,1:PD(900,900)PV(1)}", "{1,0:E(4)}", "{0}"]
SIZES = ["[{},{}]", "[{},<={}]", "[{}]", "[?,{}]", "[{}99999999999999999999]", "[]"]


def program(count, layouts=LAYOUTS[1:4]):
    """A program of instructions, each of another shape."""
    lines = [f"  %add.{n} = f32[{n % 7 + 1},{n + 1}]{layouts[n % len(layouts)]} add(%x, %y)\n" for n in range(count)]
    return f"ENTRY %main () -> f32[2] {{\n{''.join(lines)}}}\n"


@pytest.mark.parametrize("seed", range(20))
def test_shapes_of_layouts_that_were_read_before_are_what_they_are_alone(seed):
    chance = random.Random(seed)
    texts = [
        chance.choice(["f32", "s32", "u4", "pred", "x9"])
        + chance.choice(SIZES).format(chance.randrange(1, 900), chance.randrange(1, 900))
        + chance.choice(LAYOUTS)
        for _ in range(300)
    ]
    alone = []
    for text in texts:
        try:
            alone.append(gl.parse_shape(text))
        except gl.ShapeTextError:
            continue
    text = "\n".join(texts)
    found = {each.line: each for each in gl.xla.find_shapes(text)}
    whole = [each.shape for line, each in found.items() if text[each.start : each.end] == texts[line - 1]]
    assert whole == alone and len(alone) > 100


def test_layouts_are_kept_once():
    layouts = [each.found.shape.layout for each in find_results(program(3000)).found]
    assert len(layouts) == 3000 and len({*map(id, layouts)}) == 3


def test_what_was_read_before_is_forgotten_when_it_is_too_much():
    kept = {}
    for number in range(25):
        hlo.keep(kept, str(number), number, most=10)
        assert kept[str(number)] == number and len(kept) <= 10


def test_memory_is_a_small_multiple_of_the_text_and_grows_with_it():
    peaks = []
    for count in (3000, 6000):
        text = program(count)
        tracemalloc.start()
        try:
            found = sum(1 for _ in find_results(text).found)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert found == count and peaks[-1] < 32 * len(text)
    assert peaks[1] <= 2.2 * peaks[0]


def test_a_caller_hears_how_far_the_text_is_read():
    text, places = program(100), []
    results = find_results(text, places.append).found
    assert places == sorted(places) and len(places) == 101 and len(text) - places[-1] < 30
    assert sum(1 for _ in results) == 100


def test_an_instruction_with_many_bodies_is_read_once():
    """The time must not grow with the square of them: 80,000 would take a minute."""
    assert (
        find_copies("ENTRY %m (p: f32[2]) -> f32[2] {\n%w = f32[2]{0} while(%p), " + "body=%a," * 80_000 + "\n}") == []
    )
