"""Names of siblings: the law is the first of all beginnings, tried one by one."""

import itertools
import re

import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.name_regex import NameRegex, template_of
from gpulayout.files.checkpoints.sibling_names import MOST_BEGINNINGS, is_name, sibling_name

ANY = NameRegex("(.*)[.](?P<last>.*)", "a rule")


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("{name}_scale_inv", "a.b.weight_scale_inv"),
        (r"\1.scales", "a.b.scales"),
        (r"x.\g<last>", "x.weight"),
        (r"\g<0>s", "a.b.weights"),
        ("scale", "scale"),
        (r"\{name\}{}{0}{", "{name}{}{0}{"),
    ],
)
def test_a_name_without_a_star_is_that_of_one_tensor(text, wanted):
    assert sibling_name(ANY, text, "scale").name_for("a.b.weight", {wanted, "a.b.weight", "other"}) == wanted


def test_the_longest_beginning_counts():
    """All files of some names, for all tensors that a rule fits."""
    every = ["a.s", "as", "s", "a.ws", "a.w", "b.s"]
    star = sibling_name(NameRegex(".*", "a rule"), "*s", "scale")
    for count in range(len(every) + 1):
        for names in itertools.combinations(every, count):
            for tensor in ("a.w", "a.", "b.w", "w"):
                found = max(
                    (name for name in names if tensor.startswith(name[:-1]) and name[-1] == "s"), key=len, default=""
                )
                if found:
                    assert star.name_for(tensor, {*names}) == found
                else:
                    with pytest.raises(gl.LayoutError, match="scale '[*]s' finds nothing for tensor"):
                        star.name_for(tensor, {*names})


def test_a_star_stands_between_texts_and_groups():
    star = sibling_name(ANY, r"\g<last>/*/\1", "zero_point")
    assert star.name_for("a.w", {"w/a/a", "w//a", "a.w"}) == "w/a/a"


def test_what_the_groups_hold_is_no_star():
    names = {"a*.w", "a*.s", "aa.s"}
    assert sibling_name(ANY, r"\1.s", "scale").name_for("a*.w", names) == "a*.s"


@pytest.mark.parametrize(
    "text, names, message",
    [
        (
            "*_scales",
            ["a.b.weight", "a.b.bias", "a.b.weight_scale_inv", "c"],
            "scale '*_scales' finds nothing for tensor 'a.b.weight': there is no tensor 'a.b.weight_scales', nor one "
            "with a shorter beginning; the nearest names are 'a.b.weight_scale_inv', 'a.b.bias', 'c'",
        ),
        (
            r"\1.scale",
            ["a.b.weight", "a.b.scales"],
            r"scale '\\1.scale' finds nothing for tensor 'a.b.weight': there is no tensor 'a.b.scale'; the nearest "
            "names are 'a.b.scales'",
        ),
        ("x", ["a.b.weight"], "there is no tensor 'x'; there are no others"),
        ("{name}", ["a.b.weight"], "scale '{name}' is tensor 'a.b.weight' itself: write the name of another tensor"),
        ("*weight", ["a.b.weight", "weight"], "scale '*weight' is tensor 'a.b.weight' itself"),
    ],
)
def test_what_is_missing_is_said(text, names, message):
    with pytest.raises(gl.LayoutError, match=re.escape(message)):
        sibling_name(ANY, text, "scale").name_for("a.b.weight", {*names})


@pytest.mark.parametrize(
    "text, message",
    [
        ("*a*", "scale '*a*' has several *: one stands for a beginning of the tensor's name"),
        (r"\3*", r"scale '\\3' does not fit the regular expression"),
        (r"*\q", r"scale '\\q' has \q, which means nothing"),
        ("{nmae}*", r"scale '{nmae}' has {nmae}: here is {name}; text with braces is \{nmae\}"),
    ],
)
def test_text_that_says_no_name(text, message):
    with pytest.raises(gl.LayoutError, match=re.escape(message)):
        sibling_name(ANY, text, "scale")


def test_a_star_is_for_names_of_some_length():
    star, longest = sibling_name(NameRegex(".*", "a rule"), "*s", "scale"), "a" * MOST_BEGINNINGS
    assert star.name_for(longest, {"s"}) == "s"
    with pytest.raises(gl.LayoutError, match="has 2001 characters, and [*] is for names of at most 2000"):
        star.name_for(longest + "a", {"s"})


@pytest.mark.parametrize("text", ["1", "0.5,1,2", "1e-3", "-1", "nan", "1, 2", ".5", "1_000"])
def test_numbers_are_no_names(text):
    assert not is_name(text)


@pytest.mark.parametrize("text", ["*s", "a", "1a", "1,a", "", "1,", "0.5;1", "{name}", "model.0.scale"])
def test_other_text_may_be_a_name(text):
    assert is_name(text)


def test_templates_know_the_words_that_they_are_given():
    match = ANY.fullmatch("a.w")
    counting = template_of(ANY, r"\1.{number}.{name}", "split", ("name", "number"))
    assert counting.counts and [counting.expand(match, number) for number in (0, 12)] == ["a.0.a.w", "a.12.a.w"]
    assert not template_of(ANY, "{name}", "name", ("name",)).counts
    with pytest.raises(gl.LayoutError, match=re.escape("{number}: here is {name}; text with braces is \\{number\\}")):
        template_of(ANY, "{number}", "name", ("name",))
    with pytest.raises(gl.LayoutError, match=re.escape(r"{name}: here is no such word, \g<0> is all that was found")):
        template_of(ANY, "{name}", "rename")
    assert template_of(ANY, r"\{name\}{0}{,}{x}{a", "name").expand(match) == "{name}{0}{,}{x}{a"
