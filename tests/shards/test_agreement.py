"""What ranks tell each other before the first message."""

import pytest

import gpulayout as gl
from gpulayout.shards.agreement import ANSWER_BYTES, answer, check_answers


@pytest.mark.parametrize(
    "words, read",
    [
        ("of\nseveral\n\n lines", "of several lines"),
        ("half a pair \ud800", r"half a pair \\ud800"),  # which UTF-8 lacks
        ("\u4e2d" * 500, "\u4e2d\u4e2d"),
    ],
)
def test_a_problem_in_any_words_reaches_the_others(words, read):
    said = [answer({}, None), answer({}, RuntimeError(words))]
    assert [len(each) for each in said] == [ANSWER_BYTES] * 2
    with pytest.raises(gl.LayoutError, match=f"rank 1 cannot take part, so nothing was sent: {read}"):
        check_answers(said)
