"""Layouts inside of PyTorch's models: the moves as modules, and gradients.

    Relayout      from buffer to buffer
    Pack          from an N-d tensor to a buffer
    Unpack        from a buffer to an N-d tensor
    Transpose     from an N-d tensor to another, by a pattern such as "b h w c -> b c h w"

The package's functions take tensors without these modules too, in `torch.compile` and with gradients.
"""

import typing as _typing

from gpulayout.layout.public_names import Needs as _Needs
from gpulayout.layout.public_names import publish as _publish

if _typing.TYPE_CHECKING:
    from gpulayout.torch.modules import Pack, Relayout, Transpose, Unpack

__all__ = ["Pack", "Relayout", "Transpose", "Unpack"]

_LATE = {name: f"gpulayout.torch.modules:{name}" for name in __all__}
_publish(globals(), (), late=_LATE, needs=_Needs("torch", "PyTorch", "torch"))
