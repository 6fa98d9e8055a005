"""Arguments of `relayout_file` that are easily taken for others."""

import numpy as np
import pytest

import gpulayout as gl


def test_letters_that_only_look_like_units_are_refused(tmp_path):
    np.save(tmp_path / "in.npy", np.zeros(3))
    for unit in ("\N{KELVIN SIGN}", "K\N{LATIN SMALL LETTER DOTLESS I}B"):
        with pytest.raises(ValueError, match="is not a number of bytes such as 128M or 1.5G$"):
            gl.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", max_bytes=f"64{unit}")


def test_a_progress_that_is_false_is_called(tmp_path):
    class Calls(list):  # false as long as it is empty, as bars of other packages may be
        def __call__(self, done, total):
            self.append((done, total))

    calls = Calls()
    np.save(tmp_path / "in.npy", np.zeros(3))
    gl.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", progress=calls)
    assert calls[-1] == (48, 48)


def test_a_name_that_is_taken_is_answered_with_the_argument(tmp_path):
    before, after, link = (tmp_path / name for name in ("in.npy", "out.npy", "link.npy"))
    np.save(before, np.zeros(3))
    after.write_bytes(b"old")
    link.symlink_to("target.npy")
    for out, message in (
        (after, "the file exists; overwrite=True replaces it"),
        (link, "a symbolic link to target.npy, which does not exist; overwrite=True writes that file"),
    ):
        with pytest.raises(FileExistsError) as caught:
            gl.relayout_file(before, out)
        assert str(caught.value) == f"{out}: {message}" and isinstance(caught.value, ValueError)
        gl.relayout_file(before, out, overwrite=True)
        assert np.load(out).tolist() == [0, 0, 0]


@pytest.mark.parametrize("out", ["out.npy", "out.safetensors"])
@pytest.mark.parametrize(
    "given, instead",
    [
        ({"map": "torch-to-flax"}, "write tensors='torch-to-flax'"),
        ({"maps": ["torch-to-flax"]}, "write tensors=['torch-to-flax']"),
        ({"memory": "512M"}, "write max_bytes='512M'"),
        ({"to": "F"}, "write target='F'"),
        ({"layout": "F"}, "write target='F'"),
        ({"from_": "f32[2]"}, "write source='f32[2]'"),
        ({"tensor": {".*": "C"}}, "did you mean tensors?"),
        ({"overwite": True}, "did you mean overwrite?"),
        ({"scal": 2}, "did you mean scale?"),
        ({"renames": {}}, "did you mean rename?"),
        ({"nothing_like_it": 1}, None),
    ],
)
def test_a_keyword_that_is_none_is_answered_with_the_one_that_is_meant(tmp_path, given, instead, out):
    (name,) = given
    with pytest.raises(TypeError) as caught:
        gl.relayout_file(tmp_path / f"in.{out.partition('.')[2]}", tmp_path / out, **given)
    expected = f"'{name}' is not a keyword of this call{f': {instead}' if instead else ''}"
    assert str(caught.value) == expected
