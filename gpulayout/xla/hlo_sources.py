"""What an instruction's metadata says of the Python program: op_name, and the line of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OP_NAME = re.compile(r'\bop_name="((?:[^"\\\n]|\\[^\n])*)"')
_SOURCE = re.compile(r'\bsource_file="((?:[^"\\\n]|\\[^\n])*)"(?: source_line=([0-9]{1,18}))?')
_FRAME = re.compile(r"\bstack_frame_id=([0-9]{1,18})\b")
_FILE = re.compile(r'([0-9]{1,18}) "((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"([0-9]{1,18}) \{file_name_id=([0-9]{1,18}) function_name_id=[0-9]+ line=([0-9]{1,18})\b")
_STACK_FRAME = re.compile(r"([0-9]{1,18}) \{file_location_id=([0-9]{1,18})\b")


class SourceLines:
    """The lines of Python in a program's metadata.

    Programs name them as source_file and source_line, newer ones as the number of a frame, which tables before the
    first computation explain.
    """

    def __init__(self, text: str) -> None:
        files = {match[1]: match[2] for match in _table(text, "FileNames", _FILE)}
        locations = {match[1]: (match[2], match[3]) for match in _table(text, "FileLocations", _LOCATION)}
        self._frames = {
            match[1]: f"{files[locations[match[2]][0]]}:{locations[match[2]][1]}"
            for match in _table(text, "StackFrames", _STACK_FRAME)
            if match[2] in locations and locations[match[2]][0] in files
        }

    def of(self, attributes: str) -> str:
        """Such as model.py:12, from the attributes of an instruction; "" if they do not say it."""
        if source := _SOURCE.search(attributes):
            return f"{source[1]}:{source[2]}" if source[2] else source[1]
        frame = _FRAME.search(attributes)
        return self._frames.get(frame[1], "") if frame else ""


def op_name(attributes: str) -> str:
    """The name of the operation in the Python program, such as jit(f)/transpose; "" if the attributes do not say it."""
    found = _OP_NAME.search(attributes)
    return found[1] if found else ""


def _table(text: str, name: str, row: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The rows of the table with this name, up to the first line that is none."""
    begin = text.find(f"\n{name}\n")
    position = begin + len(name) + 2 if begin >= 0 else len(text)
    while match := row.match(text, position):
        yield match
        newline = text.find("\n", match.end())
        position = newline + 1 if newline >= 0 else len(text)
