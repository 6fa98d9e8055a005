"""A plain copy in as many threads as a call may use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np


class ThreadedCopy:
    """`numpy.copyto` of one run, each thread copying a part.  Its threads wait for the next call."""

    def __init__(self) -> None:
        self._others: dict[int, ThreadPoolExecutor] = {}

    def __call__(self, source: np.ndarray, target: np.ndarray, count: int) -> None:
        if count == 1:
            return np.copyto(target, source)
        if count not in self._others:
            self._others[count] = ThreadPoolExecutor(count - 1)
        ends = [len(source) * part // count for part in range(count + 1)]
        parts = [slice(*both) for both in zip(ends, ends[1:])]
        running = [self._others[count].submit(np.copyto, target[part], source[part]) for part in parts[1:]]
        np.copyto(target[parts[0]], source[parts[0]])
        for each in running:
            each.result()
