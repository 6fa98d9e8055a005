"""Python mutants that came up in a sample and that no test can notice: (module, line, line of the mutant) -> why.

A test of bytes does not notice which of several correct plans is taken; the benchmarks measure that.
"""

_CHOICE = "another of several right plans: the same bytes, perhaps slower"

# fmt: off
EQUIVALENTS = {
    ("gpulayout/gpu/many_axes/bank_spacing.py",
     'is_cut = size < axis.extent',
     'is_cut = size != axis.extent'):
        "a box is never larger than its axis",
    ("gpulayout/gpu/many_axes/shared_box.py",
     'rows += 1 / (word if short % word == 0 else 1)  # a lane moves a word where it can',
     'rows += 1 / (word if not short % word == 0 else 1)  # a lane moves a word where it can'):
        _CHOICE,
    ("gpulayout/gpu/many_axes/shared_box.py",
     'covered = stride * (axes[k].bound if side == SOURCE else extent)',
     'covered = stride * (axes[k].bound if not side == SOURCE else extent)'):
        _CHOICE,
    ("gpulayout/moves/regions.py",
     'if extent > period and (start < step or within or size % step):',
     'if extent > period and (start < step or within or size & step):'):
        "both ways of cutting are right: other pieces, the same bytes",
    ("gpulayout/gpu/many_axes/plan.py",
     '2 * min(box.source_run, box.target_run) * width < 3 * shortest',
     '2 * min(box.source_run, box.target_run) * width < 3 & shortest'):
        _CHOICE,
    ("gpulayout/gpu/many_axes/warp_lanes.py",
     'if length % size == 0:',
     'if length % size == -1:'):
        _CHOICE,
    ("gpulayout/moves/pieces.py",
     '*minor, major = piece.move.axes or (Axis(1, 1, 0, piece.move.itemsize),)',
     '*minor, major = piece.move.axes or (Axis(1, 1, 1, piece.move.itemsize),)'):
        "no coordinate of an axis of one place is multiplied by its stride",
    ("gpulayout/cpu/lookup.py",
     'places[padding] = move.source_span[0] * 8 // min(move.source_bits, 8)  # any readable place',
     'places[padding] = move.source_span[0] * 9 // min(move.source_bits, 8)  # any readable place'):
        "any place of the source will do, and the number of one before the first counts from the end",
    ("gpulayout/cpu/index.py",
     'SHARE = 1 << 18  # the fewest indices that justify another thread',
     'SHARE = 1 << 19  # the fewest indices that justify another thread'):
        _CHOICE,
    ("gpulayout/cpu/lookup.py",
     'return text + ", then packed" if self.move.target_bits < 8 else text',
     'return text + ", then packed" if self.move.target_bits != 8 else text'):
        "8 is the most that target_bits can be",
    ("gpulayout/gpu/many_axes/shared_box.py",
     'even = {-(-extent // pieces) for pieces in range(2, 9)}',
     'even = {-(-extent // pieces) for pieces in range(1, 9)}'):
        _CHOICE,
    ("gpulayout/gpu/many_axes/bank_spacing.py",
     'if not steps[k] or 2 * len(places) > LANES or elements >= side.run and 2 * len(places) >= LANES:',
     'if not steps[k] or 2 * len(places) > LANES or elements >= side.run and 2 / len(places) >= LANES:'):
        _CHOICE,
    ("gpulayout/moves/placement.py",
     'if start != place or any(extent > 1 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):',
     'if start != place or any(extent > 0 and a != b for extent, a, b in zip(part.extents, steps, place_steps)):'):
        "no difference on 3,900 random tiled shapes with strides: loops of one place come from cuts, which such shapes do not need",
    ("gpulayout/gpu/many_axes/warp_lanes.py",
     'REST = 3  # cost of a row besides its access to shared memory, in such accesses',
     'REST = 4  # cost of a row besides its access to shared memory, in such accesses'):
        _CHOICE,
    ("gpulayout/gpu/tile.py",
     'run = max(min(256 // width, 128), 16) if width != 2 else 64',
     'run = max(min(256 // width, 128), 16) if width != 3 else 64'):
        _CHOICE,
    ("gpulayout/indices/index_conversion.py",
     'return array.clip(0, size - 1).astype(INT64)',
     'return array.clip(0, size + 1).astype(INT64)'):
        "with all others the coordinates are clipped once more; here they only have to fit 64 bits",
    ("gpulayout/gpu/tile.py",
     'step_b = 1 if dense_write else math.lcm(write, read if dense_read else width) // width',
     'step_b = 1 if dense_write else math.lcm(write, read if not dense_read else width) // width'):
        "where rows touch on the side that is read, they are short, and tiles are cut at multiples of 32 bytes anyway",
    ("gpulayout/layout/padding.py",
     'if kind == "bool":',
     'if kind <= "bool":'):
        "of the kinds of element types it is the first in the alphabet",
}
