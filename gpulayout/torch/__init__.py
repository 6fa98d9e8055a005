"""Layouts inside of PyTorch's models: the moves as modules, and gradients.

    Relayout      from buffer to buffer
    Pack          from an N-d tensor to a buffer
    Unpack        from a buffer to an N-d tensor
    Transpose     from an N-d tensor to another, by a pattern such as "b h w c -> b c h w"

Weights that remember their layout:

    pack_, unpack_           a tensor into a kernel's layout and back, within its own memory
    copy_, read              plain values, or a box of them, into packed memory and out of it
    layout_of, empty_packed  the layout of a tensor; new packed memory
    mark_packed_             memory that an engine has packed itself
    PackedTensor             the class of packed tensors

Models whose weights do, and their files:

    unpacked                 plain weights inside of a `with`, packed again after it
    state_dict               the checkpoint of such a model, read tensor by tensor
    load_state_dict          a checkpoint into packed memory
    save_packed, load_packed packed bytes as they are, in a .safetensors file

The package's functions take tensors without these modules too, in `torch.compile` and with gradients.
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from gpulayout.layout.public_names import Needs as _Needs
from gpulayout.layout.public_names import publish as _publish

if _typing.TYPE_CHECKING:
    from gpulayout.torch.modules import Pack, Relayout, Transpose, Unpack
    from gpulayout.torch.packed_files import load_packed, save_packed
    from gpulayout.torch.packed_models import PlainState, load_state_dict, state_dict, unpacked
    from gpulayout.torch.packed_tensor import PackedTensor, rebuild_packed
    from gpulayout.torch.packed_values import copy_, read
    from gpulayout.torch.packing import empty_packed, layout_of, mark_packed_, pack_, unpack_

_FILES = {
    "modules": ["Pack", "Relayout", "Transpose", "Unpack"],
    "packed_files": ["load_packed", "save_packed"],
    "packed_models": ["PlainState", "load_state_dict", "state_dict", "unpacked"],
    "packed_tensor": ["PackedTensor", "rebuild_packed"],
    "packed_values": ["copy_", "read"],
    "packing": ["empty_packed", "layout_of", "mark_packed_", "pack_", "unpack_"],
}
__all__ = [
    "Pack",
    "PackedTensor",
    "PlainState",
    "Relayout",
    "Transpose",
    "Unpack",
    "copy_",
    "empty_packed",
    "layout_of",
    "load_packed",
    "load_state_dict",
    "mark_packed_",
    "pack_",
    "read",
    "rebuild_packed",
    "save_packed",
    "state_dict",
    "unpack_",
    "unpacked",
]

_LATE = {name: f"gpulayout.torch.{file}:{name}" for file, names in _FILES.items() for name in names}
_publish(globals(), (), late=_LATE, needs=_Needs("torch", "PyTorch", "torch"))

# torch.load(weights_only=True) calls no function that was not registered before, as this import does.
if _sys.modules.get("torch"):
    _importlib.import_module("gpulayout.torch.packed_tensor")
