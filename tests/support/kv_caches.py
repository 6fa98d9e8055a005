"""Pools of pages of keys and values as NumPy knows them, and what docs/kv-caches.md defines."""

import contextlib
import doctest
import functools
import io
import math
import pathlib
import re
import types

import numpy as np

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "kv-caches.md").read_text()
ORDERS = "LBHNC", "LBNHC", "BLHNC", "BLNHC", "LHBNC", "BHLNC"


@functools.cache
def page_names():
    """The functions that the page defines."""
    names = {}
    for example in doctest.DocTestParser().get_examples(TEXT):
        if example.source.startswith(("import", "def")):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, "kv-caches.md", "exec"), names)
    for text in re.findall(r"^```python\n(def .*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL):
        exec(compile(text, "kv-caches.md", "exec"), names)
    return types.SimpleNamespace(**names)


class Pool:
    """A pool of an engine's rank in one of the six orders; every byte is 255 before it is written.

    `ids` are the blocks of the pool that hold a sequence.  `places` are the indices of the elements (l, s, h, c) of the
    sequence: the law of the order, in words of NumPy alone.
    """

    def __init__(self, order, page, blocks, sizes, dtype, ids):
        layers, tokens, heads, content = sizes
        extent = {"L": layers, "B": blocks, "H": heads, "N": page, "C": content}
        self.order, self.ids = order, np.asarray(ids)
        self.memory = np.empty([extent[letter] for letter in order], dtype)
        self.memory.reshape(-1).view(np.uint8)[:] = 255
        layer, token, head, element = np.indices(sizes)
        index = {"L": layer, "B": self.ids[token // page], "H": head, "N": token % page, "C": element}
        self.places = tuple(index[letter] for letter in order)
        self.page_size = math.prod(extent[letter] for letter in order[order.index("B") + 1 :])

    def write(self, values):
        self.memory[self.places] = values

    def read(self):
        return self.memory[self.places]

    def untouched(self):
        """Whether every byte outside the sequence's blocks is still 255."""
        others = np.delete(self.memory, self.ids, axis=self.order.index("B"))
        return bool((others.reshape(-1).view(np.uint8) == 255).all())

    def pages(self):
        """The pool as a list of pages."""
        return self.memory.reshape(-1, self.page_size)

    def bytes_of(self, heads):
        """Where each element of some heads of the sequence lies, in bytes, in one order for every pool."""
        index = tuple(places[:, :, heads] for places in self.places)
        return np.ravel_multi_index(index, self.memory.shape).reshape(-1) * self.memory.itemsize


def joined_runs(source, target, itemsize):
    """Bytes of elements in two pools as runs: source byte, target byte, bytes; in the target's order, and maximal."""
    order = np.argsort(target)
    source, target = source[order], target[order]
    goes_on = (np.diff(source) == itemsize) & (np.diff(target) == itemsize)
    first = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    count = np.diff(np.append(first, len(order)))
    return np.stack([source[first], target[first], count * itemsize], axis=1)


def cut_heads(heads, ranks, before=0, after=0):
    """The boxes of an engine that cuts heads over its ranks, with ranks of another engine before and after them."""
    each = heads // ranks
    boxes = [(..., slice(rank * each, (rank + 1) * each), slice(None)) for rank in range(ranks)]
    return [*[None] * before, *boxes, *[None] * after]
