"""Regular expressions of rules: what `re` finds, in bounded time.

Laws, on random expressions and names:

  - a program finds what `re` finds, group by group, in whole names and in parts of them
  - `re` takes no more steps than `ways` says, counted by a matcher that tries all ways
"""

import math
import random
import re
import subprocess
import sys
import warnings

import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.kinds import Assumptions
from gpulayout.files.checkpoints.maps import read_map, ready_maps
from gpulayout.files.checkpoints.name_program import NameProgram, NoProgram, parsed
from gpulayout.files.checkpoints.name_regex import NameRegex, ways
from tests.support.model_files import model
from tests.support.read_steps import RegexSteps
from tests.support.waiting import HANG

PARTS = r"a b c . [ab] [^a] [^.] \w ab \. a? b* c+ .* a{2} a{1,3} b?? a*? ^ $ \b (?i:A) x (?=ab) (?!.c)".split()
REPEATS = ["*", "+", "?", "{1,2}", "*?", "+?", "{2,}", "{0,2}?"]
# Every kind of expression that `re` reads in exponential or high polynomial time.
HOSTILE = [
    "(a+)+$", "(a|aa)+$", "(a|a)*b", r"(\w+\s?)*$", "(x+x+)+y", "([a-zA-Z]+)*[0-9]", "a?" * 30 + "a" * 30,
    ".*.*.*.*.*x", "(?i)(ab|AB)+c", "(?i:(?:[b-z]*A|ba)+)c",
    "(?:a+b?)+c", "(?:a|b|ab)*c", r"(\w+\.?)*weight", "(?i:(ab|AB)+)c", "((a+?)+?)b", "(?:(?:a+){1,9}){1,9}b",
    "(.*)a(.*)a(.*)a(.*)a(.*)b",
]  # fmt: skip
# What no program can do: refused when a rule is read, not when it meets a name.
REFUSED = {
    "(.*)*x": "it repeats what may be empty, as in (a*)*, for which (a+)* does",
    r"(a+)+\1b": "it refers to a group, as (?P=name) does",
    "(?P<one>a+)+(?P=one)b": "it refers to a group, as (?P=name) does",
    "(?=(a+)+b)a*": "it has a group in a look-ahead or an atomic part",
    "(?!(?:a+)+b)(a+)+c": "it has a look-ahead or an atomic part, which is tried at many places",
    "(a{1,99}){1,99}b": "it has counted repeats, such as {2,9}, that make more than 5000 steps",
}


def expression(random, depth):
    kind = random.random() if depth else 0
    if kind < 0.3:
        return random.choice(PARTS)
    inner = expression(random, depth - 1)
    if kind < 0.5:
        return inner + expression(random, depth - 1)
    if kind < 0.75:
        both = f"{inner}|{expression(random, depth - 1)}"
        return f"({inner})" if kind < 0.6 else f"(?:{both})" if kind < 0.7 else f"({both}|)"
    return f"{'(' if kind > 0.9 else '(?:'}{inner}){random.choice(REPEATS)}"


def cases(seed, count):
    """Random expressions that `re` takes, each with a name."""
    chance = random.Random(seed)
    while count:
        regex = expression(chance, 4)
        try:
            re.compile(regex)
        except re.error:
            continue
        yield (
            regex,
            "".join(chance.choice("abc.x\nA" if chance.random() < 0.2 else "ab.") for _ in range(chance.randrange(9))),
        )
        count -= 1


@pytest.mark.parametrize("seed", range(8))
def test_a_program_finds_what_re_finds(seed):
    compared = 0
    for regex, name in cases(seed, 1500):
        try:
            program = NameProgram(parsed(regex), re.compile(regex).groups, lambda items: math.inf)
        except NoProgram:
            continue
        whole, found = re.fullmatch(regex, name), program.fullmatch(name)
        assert found == (whole and (whole[0], *whole.groups())), (regex, name)
        parts = [(each.start(), each.end(), (each[0], *each.groups())) for each in re.finditer(regex, name)]
        assert [*program.matches(name)] == parts, (regex, name)
        compared += 1
    assert compared > 700


@pytest.mark.parametrize("seed", range(8))
def test_re_takes_no_more_steps_than_there_are_ways(seed):
    counted = 0
    for regex, name in cases(100 + seed, 600):
        found = ways(parsed(regex))
        repeats = found.repeats + found.runs
        bound = found.factor * math.comb(len(name) + repeats, repeats)
        if bound > 1000:
            continue
        assert RegexSteps(re.compile(regex)).all(name) <= 4 * len(regex) * bound, (regex, name, found)
        counted += bound > 1
    assert counted > 100


@pytest.mark.parametrize("regex", HOSTILE)
def test_hostile_expressions_are_not_for_re(regex):
    """The words are about what a program would find; whether `re` gets them is what the next test cannot hang for."""
    match = NameRegex(regex, "the rule")
    assert match.longest < 100 and match.longest_searched < 100
    for name in ("a" * 100, "a" * 100 + "!", "x" * 100, "ab" * 50, "a.weight"):
        match.search(name), match.sub(lambda found: "", name)
        assert match.fullmatch(name) is None or match.fullmatch(name)[0] == name


@pytest.mark.parametrize("regex", HOSTILE)
def test_twice_the_name_takes_twice_the_steps(regex):
    """Counted as pairs of a step and a place, of which none is tried twice."""
    program = NameProgram(parsed(regex), re.compile(regex).groups, lambda items: math.inf)
    pairs = []
    for length in (100, 200):
        tried = bytearray(len(program.steps) * (length + 1))
        program.first_way("a" * length, 0, tried, full=True)
        pairs.append(sum(tried))
    assert pairs[1] <= 2.2 * pairs[0]


@pytest.mark.parametrize("regex, reason", REFUSED.items())
def test_what_has_no_program_is_refused_when_it_is_read(regex, reason):
    with pytest.raises(gl.LayoutError) as caught:
        NameRegex(regex, "rule 3 of my.toml")
    assert str(caught.value).startswith(f"rule 3 of my.toml: {regex!r} may take too long, because") and reason in str(
        caught.value
    )
    assert "write parts that say where they end, such as [^.]* in place of .*" in str(caught.value)


def test_a_name_that_is_too_long_for_its_rule_is_named():
    match = NameRegex(".*.*x", "the rule")
    assert match.fullmatch("a" * 100_000 + "x")
    with pytest.raises(
        gl.LayoutError, match=r"may take too long for tensor 'aaa.*' of 9000000 characters, .* the name is long"
    ):
        match.fullmatch("a" * 9_000_000)


@pytest.mark.parametrize("name", ready_maps())
def test_rules_of_ready_maps_are_for_re(name):
    rules = read_map(name)
    assert all(rule.match.longest >= 900 for rule in rules.rules)


@pytest.mark.parametrize(
    "regex",
    [
        r"model\.layers\.(\d+)\.self_attn\.(q|k|v)_proj\.weight", ".*weight", r"(.+)\.kernel",
        r"([^.]*)\.([^.]*)\.(.*)\.w", r"(.*)_(\d+)\.(\w+)",
        r"(\w+\.)*weight", r"(?:(?:encoder|decoder)\.)?layers\.(\d+)\.(?:conv|norm)(\d)\.(weight|bias)",
    ],
)  # fmt: skip
def test_usual_rules_are_for_re(regex):
    assert NameRegex(regex, "the rule").longest >= 150


def test_flags_and_groups_stay_what_they_are():
    match = NameRegex(r"(?P<layer>(?:[ab]+_?)+)\.(?i:KERNEL)", "the rule")
    assert match.longest < 1 and match.groups == 1 and match.groupindex == {"layer": 1}
    assert match.fullmatch("ab_ba.kernel")[1] == "ab_ba" and not match.fullmatch("AB.kernel")
    assert NameRegex("(?i)(A+)+", "the rule").fullmatch("aAa")
    assert NameRegex("(a+)+b?", "the rule").sub(lambda found: f"<{found[1]}>", "xaabya") == "x<aa>y<a>"


def test_a_warning_of_re_comes_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NameRegex("[[a]", "the rule")
    assert len(caught) == 1


def test_names_are_read_once_for_an_assumption():
    assumed, reads = Assumptions(), []

    def names():
        for number in range(100):
            reads.append(number)
            yield f"a.{number}"

    match = NameRegex(r"a\.9[89]", "the assumption")
    assert all(assumed.is_about_several(match, names()) for _ in range(100))
    assert len(reads) == 100


PROGRAM = """
import sys
import gpulayout as gl
from gpulayout.cli.main import main
folder, regex = sys.argv[1:]
source = folder + "/in.safetensors"
for given in ({"tensors": {regex: "keep"}}, {"tensors": [regex + "=keep"]}, {"tensors": {}, "rename": {regex: "b"}},
              {"tensors": ["keras-to-torch"], "assume": {regex: "conv"}}, {"tensors": [folder + "/map.toml"]}):
    try:
        gl.relayout_file(source, folder + "/out.safetensors", overwrite=True, **given)
    except gl.LayoutError as error:
        print(error)
print("done")
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("regex", HOSTILE)
def test_no_rule_hangs(tmp_path, regex):
    """Everywhere that a regular expression is given, with names of 60 characters that end otherwise."""
    names = ["a" * 60 + "!", "x" * 60, "a" * 60, "ab" * 30]
    (tmp_path / "in.safetensors").write_bytes(model(dict.fromkeys(names, ("F32", (2, 3))), None))
    (tmp_path / "map.toml").write_text(f"rename = [['{regex}', 'b']]\n[[tensor]]\nmatch = '{regex}'\nkeep = true\n")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), regex], capture_output=True, text=True, timeout=HANG
    )
    assert run.stdout.endswith("done\n"), run.stderr
