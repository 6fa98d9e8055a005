"""Layouts that kernels want, by name: each entry gives a `Shape` for sizes.

    entries()                       all entries, sorted by name
    find("cublas:block_scales")     one of them
    cublas, cublaslt, ...           a module for each owner, with its entries: gl.catalogue.cublas.block_scales(200, 10)

The text "cublas:block_scales[200,10]" stands for a shape wherever one is taken, and "cublas:block_scales" for a layout.
`docs/catalogue.md` lists all entries and says what confirms each of them.
"""

import typing as _typing

from gpulayout.catalogue.entry import Entry, Option, Size
from gpulayout.catalogue.names import OWNERS as _OWNERS
from gpulayout.catalogue.names import entries, find
from gpulayout.layout.public_names import publish as _publish

if _typing.TYPE_CHECKING:
    from gpulayout.catalogue import aiter as aiter
    from gpulayout.catalogue import awq as awq
    from gpulayout.catalogue import cublas as cublas
    from gpulayout.catalogue import cublaslt as cublaslt
    from gpulayout.catalogue import cudnn as cudnn
    from gpulayout.catalogue import cutlass as cutlass
    from gpulayout.catalogue import deepgemm as deepgemm
    from gpulayout.catalogue import flashinfer as flashinfer
    from gpulayout.catalogue import gptq as gptq
    from gpulayout.catalogue import marlin as marlin
    from gpulayout.catalogue import mma as mma
    from gpulayout.catalogue import onednn as onednn
    from gpulayout.catalogue import torchao as torchao
    from gpulayout.catalogue import transformers as transformers
    from gpulayout.catalogue import triton as triton
    from gpulayout.catalogue import vllm as vllm
    from gpulayout.catalogue import xla_tpu as xla_tpu

__all__ = ["Entry", "Option", "Size", "entries", "find"]

_publish(globals(), __all__, late=_OWNERS)
