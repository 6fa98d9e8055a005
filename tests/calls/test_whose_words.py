"""Errors for wrong values of every argument: they speak of what the caller wrote, not of what lies behind it."""

import re
import traceback

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import run

X, LINE, SHAPE, ONE = np.ones((2, 3), np.float32), np.ones(6, np.float32), "f32[2,3]", np.array([1])
PLAN = gl.plan(SHAPE, "F")


class WithoutText:
    def __repr__(self):
        raise RuntimeError("no text")


class Interface:
    __array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (0, False), "version": 3}


class Capsule:
    def __dlpack__(self, **options):
        raise RuntimeError("no capsule")

    def __dlpack_device__(self):
        return (1, 0)


def dask_array():
    return pytest.importorskip("dask.array").ones(6)


def torch_tensor():
    return pytest.importorskip("torch").ones(2, 3)


WRONG = {
    "object": object,
    "function": lambda: print,
    "lambda": lambda: lambda value: value,
    "iterator": lambda: iter([1]),
    "without text": WithoutText,
    "interface": Interface,
    "capsule": Capsule,
    "module": lambda: gl,
    "type": lambda: object,
    "exception": lambda: ValueError("x"),
    "bytes": lambda: b"f32[2,3]",
    "nested": lambda: {"a": [1, (2,)]},
    "fields": lambda: np.dtype([("a", "f4")]),
    "objects": lambda: np.array([None]),
    "dates": lambda: np.ones(6, "M8[s]"),
    "text array": lambda: np.array(["a"]),
    "masked": lambda: np.ma.array([1.0]),
    "dask": dask_array,
    "torch": torch_tensor,
    "surrogate": lambda: "\ud800",
    "long text": lambda: "{" * 5000,
    "huge": lambda: 10**400,
    "nan": lambda: float("nan"),
    "plan": lambda: PLAN,
    "tile": lambda: gl.Tile((8, 128)),
}
OPTIONS = ("dtype", "scale", "shift", "mean", "std", "unit", "zero_point", "saturate")
DOORS = {
    "pack array": lambda wrong: gl.pack(wrong, "F"),
    "pack shape": lambda wrong: gl.pack(X, wrong),
    "pack out": lambda wrong: gl.pack(X, "F", out=wrong),
    **{f"pack {name}": lambda wrong, name=name: gl.pack(X, "F", **{"dtype": "f16", name: wrong}) for name in OPTIONS},
    "unpack buffer": lambda wrong: gl.unpack(wrong, SHAPE),
    "unpack shape": lambda wrong: gl.unpack(LINE, wrong),
    "relayout buffer": lambda wrong: gl.relayout(wrong, SHAPE, "F"),
    "relayout source": lambda wrong: gl.relayout(LINE, wrong, "F"),
    "relayout target": lambda wrong: gl.relayout(LINE, SHAPE, wrong),
    "relayout out": lambda wrong: gl.relayout(LINE, SHAPE, "F", out=wrong),
    "relayout max_bytes": lambda wrong: gl.relayout(LINE, SHAPE, "F", out=LINE, max_bytes=wrong),
    "relayout_many jobs": lambda wrong: gl.relayout_many(wrong),
    "relayout_many job": lambda wrong: gl.relayout_many([wrong]),
    "relayout_many out": lambda wrong: gl.relayout_many([(LINE, SHAPE, "F")], out=[wrong]),
    "transpose array": lambda wrong: gl.transpose(wrong, (1, 0)),
    "transpose axes": lambda wrong: gl.transpose(X, wrong),
    "transpose size": lambda wrong: gl.transpose(X, "a (b c) -> c a b", b=wrong),
    "view buffer": lambda wrong: gl.view(wrong, SHAPE),
    "view shape": lambda wrong: gl.view(LINE, wrong),
    "plan source": lambda wrong: gl.plan(wrong, "F"),
    "plan target": lambda wrong: gl.plan(SHAPE, wrong),
    "plan names": lambda wrong: gl.plan(SHAPE, "F", names=wrong),
    "plan call": lambda wrong: PLAN(wrong),
    "plan call out": lambda wrong: PLAN(LINE, out=wrong),
    "plan blocks": lambda wrong: PLAN.blocks(wrong),
    "zeros shape": lambda wrong: gl.zeros(wrong),
    "zeros align": lambda wrong: gl.zeros(SHAPE, align=wrong),
    "asarray array": lambda wrong: gl.asarray(wrong, "F"),
    "asarray layout": lambda wrong: gl.asarray(X, wrong),
    "Array buffer": lambda wrong: gl.Array(wrong, SHAPE),
    "Array shape": lambda wrong: gl.Array(LINE, wrong),
    "Array.to": lambda wrong: gl.Array(LINE, SHAPE).to(wrong),
    "linearize index": lambda wrong: gl.linearize((wrong, ONE), SHAPE),
    "linearize mode": lambda wrong: gl.linearize((ONE, ONE), SHAPE, mode=wrong),
    "delinearize linear": lambda wrong: gl.delinearize(wrong, SHAPE),
    "convert_linear padding": lambda wrong: gl.convert_linear(ONE, SHAPE, "F", padding=wrong),
    "code shape": lambda wrong: gl.code(wrong),
    "code language": lambda wrong: gl.code(SHAPE, wrong),
    "code name": lambda wrong: gl.code(SHAPE, name=wrong),
    "code bits": lambda wrong: gl.code(SHAPE, bits=wrong),
    "show_config mode": lambda wrong: gl.show_config(wrong),
    "use_backend": lambda wrong: gl.use_backend(wrong),
    "Shape type": lambda wrong: gl.Shape(wrong, (2, 3)),
    "Shape dimensions": lambda wrong: gl.Shape("f32", wrong),
    "Shape layout": lambda wrong: gl.Shape("f32", (2, 3), wrong),
    "Shape pitch": lambda wrong: gl.Shape("f32", (2, 3), pitch=wrong),
    "Shape align": lambda wrong: gl.Shape("f32", (2, 3), align=wrong),
    "Layout": lambda wrong: gl.Layout(wrong),
    "Layout tiles": lambda wrong: gl.Layout((1, 0), tiles=wrong),
    "Layout padding_value": lambda wrong: gl.Layout((1, 0), padding_value=wrong),
    "relayout_file file": lambda wrong: gl.relayout_file(wrong, "never.npy", target="F"),
    "relayout_file out": lambda wrong: gl.relayout_file(gl.Array(LINE, SHAPE), wrong, target="nonsense"),
    "relayout_file target": lambda wrong: gl.relayout_file(gl.Array(LINE, SHAPE), "never.npy", target=wrong),
    "relayout_file max_bytes": lambda wrong: gl.relayout_file(
        gl.Array(LINE, SHAPE), "none/never.npy", target="F", max_bytes=wrong
    ),
    "relayout_file scratch": lambda wrong: gl.relayout_file(
        gl.Array(LINE, SHAPE), "none/never.npy", target="F", scratch=wrong
    ),
    "from_numpy_order": lambda wrong: gl.interop.from_numpy_order(wrong, 2),
    "from_torch_memory_format": lambda wrong: gl.interop.from_torch_memory_format(wrong, 4),
    "from_cute": lambda wrong: gl.interop.from_cute(wrong, "f32"),
    "catalogue dtype": lambda wrong: gl.catalogue.cublas.block_scales(200, 10, dtype=wrong),
    "catalogue name": lambda wrong: gl.catalogue.find(wrong),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("door", DOORS)
def test_an_error_is_the_library_s_own_and_prints_no_address(tmp_path, monkeypatch, door, kind):
    """What Python or another library raises inside would not name the argument."""
    monkeypatch.chdir(tmp_path)
    wrong = WRONG[kind]()
    try:
        DOORS[door](wrong)
    except (TypeError, ValueError, BufferError, IndexError, OSError) as error:
        text, frames = str(error), traceback.extract_tb(error.__traceback__)
        if not isinstance(error, OSError) and kind != "surrogate":  # a name that no file can have
            assert "gpulayout" in frames[-1].filename.split("tests")[0], (frames[-1], text)
            assert "test_whose_words" not in frames[-1].filename
        assert not re.search(r" at 0x|\bast\.|(?<![\w.])_[a-z]\w*\(|\n", text), text
        assert len(text) <= 1500 or isinstance(error, OSError)


@pytest.mark.parametrize("option", ["--to", "--from"])
@pytest.mark.parametrize("word", ["f32", "bf16"])
def test_hints_for_the_command_line_name_options(tmp_path, option, word):
    np.save(tmp_path / "a.npy", LINE)
    given = {"--from": "f32[2,3]", "--to": "F"} | {option: word}
    words = [part for pair in given.items() for part in pair]
    text = run("relayout", tmp_path / "a.npy", tmp_path / "b.npy", *words, code=2).stderr
    assert f"or in --dtype {word}" in text and "dtype=" not in text
