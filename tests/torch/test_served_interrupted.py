"""A served model whose reload is cut short, by an error or by Ctrl-C: each parameter says what it holds, and the next
reload is right.
"""

import contextlib
import functools
import os
import signal
import threading
from collections import Counter

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support import served_laws  # noqa: E402  # they need torch
from tests.support.reloads import boxes  # noqa: E402
from tests.support.served_logits import logits  # noqa: E402
from tests.support.served_models import (  # noqa: E402
    SLOTS,
    Served,
    addresses,
    checkpoint,
    in_checkpoint,
    in_memory,
    load,
    part_names,
    served,
    whole_array,
)
from tests.support.traced_lines import Trace  # noqa: E402


class Stopped(Exception):
    """What a loader may raise."""


def stopping(number, error):
    """A function that raises when it is called for this time."""
    calls = iter(range(number + 1))

    def called():
        if next(calls) == number:
            raise error

    return called


def through_the_engine(model, given, each):
    with gl.torch.unpacked(model):
        load(model, given, each)


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
@pytest.mark.parametrize("way", [through_the_engine, boxes])
def test_a_reload_is_cut_short_before_any_tensor(way, error):
    """What came before has arrived, what did not has its old values, and all is packed as it was."""
    model = served(0)
    before, names = addresses(model), part_names()
    layouts = {name: gl.torch.layout_of(parameter) for name, parameter in model.slots().items()}
    holds = checkpoint(0)
    for seed, number in enumerate(range(0, len(names), 9), 1):
        given = checkpoint(seed)
        with pytest.raises(error):
            way(model, given, stopping(number, error))
        holds.update({name: given[name] for name in names[:number]})
        read = in_memory(model)
        for name in SLOTS:
            assert read(name).tobytes() == whole_array(name, holds).tobytes(), (name, number)
        assert {name: gl.torch.layout_of(parameter) for name, parameter in model.slots().items()} == layouts
        assert addresses(model) == before
    given = checkpoint(100)
    gl.torch.load_state_dict(model, Served(given).state_dict())
    assert np.array_equal(logits(in_memory(model)), logits(in_checkpoint(given)))


# ---- anywhere inside of a call ---------------------------------------------------------------------------------------

ROWS, COLUMNS = 32, 64
FORMS = {  # what is packed, and how a kernel finds it
    "column-major": (np.float32, "{0,1}", served_laws.column_major, "f32"),
    "Marlin": (np.uint8, "marlin:weights(dtype=u4)", served_laws.marlin, "u4"),
}


class Weight:
    """A tensor, its values, and what must be true of both at any time."""

    def __init__(self, form):
        self.dtype, self.layout, self.law, self.held = FORMS[form]
        self.values = self.numbers(0)
        self.tensor = torch.nn.Parameter(torch.from_numpy(self.values.copy()), requires_grad=False)
        self.address, self.plain = self.tensor.data_ptr(), (self.tensor.dtype, self.tensor.shape)

    def numbers(self, seed):
        return np.random.default_rng(seed).integers(0, 16, (ROWS, COLUMNS)).astype(self.dtype)

    def new_values(self):
        """Values for a copy, which holds once the copy has ended, and again."""
        self.values = self.numbers(int(self.values.sum()))
        return torch.from_numpy(self.values)

    def check(self, whole=True):
        """The tensor says what it holds, and holds it; with `whole` it may also say that it is between two layouts.

        Returns what it says.
        """
        assert self.tensor.data_ptr() == self.address
        try:
            shape = gl.torch.layout_of(self.tensor)
        except gl.LayoutError as error:
            assert "between two layouts" in str(error)
            for function in (gl.torch.read, gl.torch.unpack_):
                with pytest.raises(gl.LayoutError, match="between two layouts"):
                    function(self.tensor)
            return "between"
        if shape is None:
            assert type(self.tensor) is torch.nn.Parameter
            assert (self.tensor.dtype, self.tensor.shape) == self.plain
            held = self.tensor.numpy()
        else:
            held = served_laws.in_memory(self.tensor, self.law, (ROWS, COLUMNS), self.held)
        assert not whole or np.array_equal(held, self.values)
        return "plain" if shape is None else "packed"

    def mend(self):
        """Make it plain, with its values, from any state."""
        gl.torch.copy_(self.tensor, torch.from_numpy(self.values))
        if self.check() == "packed":
            gl.torch.unpack_(self.tensor)
        assert self.check() == "plain"

    def pack(self):
        gl.torch.pack_(self.tensor, self.layout)

    def copy(self):
        gl.torch.copy_(self.tensor, self.new_values())

    def unpack(self):
        gl.torch.unpack_(self.tensor)

    def reload(self):
        with gl.torch.unpacked([self.tensor]):
            self.tensor.copy_(self.new_values())


STEPS = {"pack": (), "unpack": ("pack",), "copy": ("pack",), "reload": ("pack",)}  # what is done before


def stopped(weight, step, act, folders, error):
    """Do one step again and again, and act before each of some lines; afterwards it must hold what it says.

    Returns what the tensor said that it was.
    """
    said = Counter()
    for folder, points in folders.items():
        for each in (*STEPS[step], step):  # calls that are known take fewer lines
            getattr(weight, each)()
        weight.mend()
        for each in STEPS[step]:
            getattr(weight, each)()
        lines = Trace(folder).run(getattr(weight, step))
        weight.mend()
        for number in sorted({*np.linspace(1, lines, points).astype(int).tolist()}):
            for each in STEPS[step]:
                getattr(weight, each)()
            with contextlib.suppress(error):
                Trace(folder, number, act).run(getattr(weight, step))
            said[weight.check(whole=step not in ("copy", "reload"))] += 1
            weight.mend()
    return said


@pytest.mark.one_in(2)
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals are handled in the main thread"
)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_at_any_line(step, form):
    """Ctrl-C while a tensor is packed, unpacked, written or reloaded: real signals, line by line of the package."""
    act = functools.partial(signal.raise_signal, signal.SIGINT)
    said = stopped(Weight(form), step, act, {"torch" + os.sep: 60, "": 20}, KeyboardInterrupt)
    assert said["packed"] and not said["between"]  # a move under way comes to its end
    assert said["plain"] or step in ("copy", "reload")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("error", [Stopped, MemoryError])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_fails_at_any_line(step, form, error):
    """The engine gives up somewhere, as without memory: the tensor says so until it gets all its values again."""

    def fail():
        raise error

    folders = {folder + os.sep: 15 for folder in ("running", "cpu", "moves")}
    said = stopped(Weight(form), step, fail, folders, error)
    assert said["packed"] and (said["plain"] or step in ("copy", "reload"))  # before and after the bytes move
    assert said["between"] or step in ("copy", "reload")
