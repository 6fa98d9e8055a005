"""Layouts inside of PyTorch's models: the moves as modules, and gradients.

    Relayout      from buffer to buffer
    Pack          from an N-d tensor to a buffer
    Unpack        from a buffer to an N-d tensor
    Transpose     from an N-d tensor to another, by a pattern such as "b h w c -> b c h w"

The package's functions take tensors without these modules too, in `torch.compile` and with gradients.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"gpulayout.torch needs PyTorch, which cannot be imported ({error}): pip install 'gpulayout[torch]'"
    ) from error

from gpulayout.layout.public_names import publish as _publish
from gpulayout.torch import gradients as _gradients  # noqa: F401  # torch.ops.gpulayout, with gradients
from gpulayout.torch.modules import Pack, Relayout, Transpose, Unpack

__all__ = ["Pack", "Relayout", "Transpose", "Unpack"]

_publish(globals(), __all__)


def __dir__() -> list[str]:
    return list(__all__)
