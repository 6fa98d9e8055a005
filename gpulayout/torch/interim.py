"""Replaced when the general front has boxes and moves in place of any pair."""

import gpulayout.calls.packing as p
from gpulayout.calls.relayout import relayout as plain_relayout
from gpulayout.layout.errors import LayoutError
from gpulayout.requests.index_keys import box_of


def relayout(buffer, source, target, *, out=None, max_bytes=None, **options):
    if out is None:
        return plain_relayout(buffer, source, target, **options)
    if buffer.data_ptr() != out.data_ptr():
        return plain_relayout(buffer, source, target, out=out, **options)
    try:
        return plain_relayout(buffer, source, target, out=out, max_bytes=max_bytes)
    except (LayoutError, BufferError):
        out.copy_(plain_relayout(buffer.clone(), source, target))
        return out


def pack(array, shape, *, out=None, at=None, **options):
    if at is None:
        return p.pack(array, shape, out=out, **options) if out is not None else p.pack(array, shape, **options)
    whole = p.unpack(out, shape)
    key = tuple(slice(*pair) for pair in box_of(at, shape))
    if options:
        from gpulayout.calls.transpose import transpose

        array = transpose(array, tuple(range(array.dim())), **options)
    whole[key] = array.view(whole.dtype) if array.dtype != whole.dtype else array
    return p.pack(whole, shape, out=out)


def unpack(buffer, shape, *, at=None):
    whole = p.unpack(buffer, shape)
    if at is None:
        return whole
    return whole[tuple(slice(*pair) for pair in box_of(at, shape))].clone()
