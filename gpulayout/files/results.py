"""What `relayout_file` gives back."""

from __future__ import annotations

from typing import NamedTuple

from gpulayout.layout.shape import Shape


class FileRelayout(NamedTuple):
    """What `relayout_file` has done.

    Attributes
    ----------
    source, target : Shape
        The shapes of the two files.
    dimensions : tuple of int
        Those in the header of the new file: of the N-d array, or of the 1-D buffer.
    blocks : tuple of int
        The number of blocks in each pass: one number, or two if there was a scratch file.
    bytes_read, bytes_written : int
        Bytes that were read from and written to files, the scratch file included.
    seconds : float
        With the time to write the new file to the disk.
    """

    source: Shape
    target: Shape
    dimensions: tuple[int, ...]
    blocks: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    seconds: float


class TensorReport(NamedTuple):
    """What became of one tensor.

    Attributes
    ----------
    name : str
        In the old file.
    new_name : str or None
        In the new file; None if it was left out.
    before, after : str
        Type and shape in the two headers, such as ``F32[2,3]``; or, for bytes with a note, the text of their shape.
    moved : bool
        False for bytes that are the same.
    kind : str or None
        What the tensor was taken as, where layers of several kinds have such weights: ``"conv"``,
        ``"conv_transpose"``, ``"linear"``, ``"embedding"`` or ``"attention"``.
    known_by : str or None
        What said so: ``"assume"``, the argument; ``"bias"``, its length; ``"name"``, the layer's; ``"rule"``, which is
        for no other kind; or ``"guess"``.
    """

    name: str
    new_name: str | None
    before: str
    after: str
    moved: bool
    kind: str | None
    known_by: str | None


class CheckpointRelayout(NamedTuple):
    """What `relayout_file` has done with a model file.

    Attributes
    ----------
    tensors : tuple of TensorReport
        All tensors, in the order of the old file.
    bytes_read, bytes_written : int
        Bytes of elements.
    seconds : float
        With the time to write the new file to the disk.
    """

    tensors: tuple[TensorReport, ...]
    bytes_read: int
    bytes_written: int
    seconds: float
