"""Whether all ranks mean the same exchange: what each of them says before the first message, and what is read from it.

An answer has a fixed number of bytes: a digest of each fact, whether there is a problem, and the first of its words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from gpulayout.layout.errors import LayoutError

ANSWER_BYTES = 512
_DIGEST_BYTES = 16
_FACTS = "version of gpulayout", "source", "target", "arithmetic", "max_bytes", "kind of device"
_UNKNOWN = bytes(_DIGEST_BYTES)
_WORDS = len(_FACTS) * _DIGEST_BYTES + 1


def answer(facts: Mapping[str, bytes], problem: Exception | None) -> bytes:
    """What a rank says: the facts above that it knows, and the error that it found in what it was given."""
    digests = [hashlib.sha256(facts[fact]).digest()[:_DIGEST_BYTES] if fact in facts else _UNKNOWN for fact in _FACTS]
    # The message of any error reaches the other ranks, even text that UTF-8 cannot encode.
    words = b"" if problem is None else " ".join(str(problem).split()).encode(errors="backslashreplace")
    said = b"".join([*digests, bytes([problem is not None]), words])
    return said[:ANSWER_BYTES].ljust(ANSWER_BYTES, b"\0")


def check_answers(answers: Sequence[bytes]) -> None:
    """LayoutError that names the first rank with a problem, or two ranks that mean different exchanges.

    >>> check_answers([answer({"source": b"f32[4]"}, None), answer({}, None), answer({"source": b"f32[8]"}, None)])
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: rank 2 has another source than rank 0, so nothing was sent: every rank runs the same exchange
    """
    for rank, said in enumerate(answers):
        if said[_WORDS - 1]:
            words = said[_WORDS:].rstrip(b"\0").decode(errors="ignore")
            raise LayoutError(f"rank {rank} cannot take part, so nothing was sent: {words}")
    for number, fact in enumerate(_FACTS):
        digests = [said[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES] for said in answers]
        known = [rank for rank, digest in enumerate(digests) if digest != _UNKNOWN]
        for rank in known:
            if digests[rank] != digests[known[0]]:
                raise LayoutError(
                    f"rank {rank} has another {fact} than rank {known[0]}, so nothing was sent: every rank runs the "
                    "same exchange"
                )
