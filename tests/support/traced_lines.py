"""Something that happens before a given line of the package, such as Ctrl-C."""

import linecache
import os
import sys

import gpulayout as gl

PACKAGE = os.path.dirname(gl.__file__) + os.sep


def leaves_a_with(frame):
    """True at the head of a `with`, where a trace also stops when its block has ended.

    Python handles no signal between the end of a block and the release of its lock, so nothing may be raised there.
    """
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")


class Trace:
    """Counts the lines of the package that a call runs, those below a folder, and acts before one of them."""

    def __init__(self, below="", number=-1, act=None):
        self.folder, self.number, self.act = PACKAGE + below, number, act
        self.lines = 0

    def run(self, function):
        kept = sys.gettrace()
        sys.settrace(self._trace)
        try:
            function()
        finally:
            sys.settrace(kept)
        return self.lines

    def _trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and frame.f_code.co_filename.startswith(self.folder) and not leaves_a_with(frame):
            self.lines += 1
            if self.lines == self.number:
                sys.settrace(None)
                self.act()
        return self._trace
