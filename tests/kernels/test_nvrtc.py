"""Every kernel compiles for every architecture without a warning, fits its budget, and has the expected machine code.

This needs no GPU and no driver.  All combinations of files, macros and architectures would be thousands of builds, so
the tests take all accesses and both offset widths on every architecture for one number of axes, and all numbers of axes
on one architecture.
"""

import itertools
import re

import pytest

from gpulayout.gpu.channels import MOST_CHANNELS, chunks_of, most_registers, registers
from gpulayout.gpu.kernel_numbers import ALIGN, BOX_AHEAD, BOX_ROWS, FIXED_TILES
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many import JOBS
from gpulayout.gpu.parameters import AXES_VARIANTS
from tests.support import nvrtc
from tests.support.effort import ALL
from tests.support.kernel_cases import (
    BLOCK,
    FILES,
    MOVE_FILES,
    ONLY_WIDTHS,
    WIDTHS,
    Case,
    backwards,
    kernel_files,
    tile_macros,
    transposed,
)
from tests.support.nvrtc import CompileError
from tests.support.random_moves import AIMS, drawn
from tests.support.sass import launches
from tests.support.sass.launches import taken

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
ENDS, BETWEEN = ("sm_75", "sm_90", "sm_120"), ("sm_80", "sm_86", "sm_89", "sm_100")  # the oldest, Hopper, the newest
ARCHITECTURES = ENDS + BETWEEN * ALL
MOST_REGISTERS = 64  # 256 threads of 64 registers: four blocks on a multiprocessor


def steps(least, most):
    """Powers of two."""
    return [size for size in (1, 2, 4, 8, 16) if least <= size <= most]


def accesses(file, width, bits=32):
    """The access macros that planners can choose for one element size."""
    if file == "copy.cu":
        return [{"GPL_LOAD_BYTES": load} for load in steps(width, 16)]
    if file == "rows.cu":
        return [
            {"GPL_VECTOR_BYTES": vector, "GPL_LOAD_BYTES": load}
            for vector in reversed(steps(width, 16))
            for load in steps(width, vector)
        ]
    if file in ("tile_any.cu", "tile_nd.cu"):
        pieces = sorted({width, max(width, 4)})
        align = {"GPL_ALIGN": 1} if file == "tile_any.cu" else {}
        found = [
            {"GPL_READ_BYTES": read, "GPL_WRITE_BYTES": write, **align}
            for read, write in itertools.product(pieces, repeat=2)
        ]
        return [*found, found[0] | {"GPL_ALIGN": ALIGN}] if align and width == 4 else found
    if file == "tile.cu":
        return tile_macros(width)
    if file == "tile_words.cu":
        return [{"GPL_ALIGN": align} for align in ((4,) if bits == 64 and width == 1 else (4, ALIGN))]
    if file == "channels.cu":
        return [
            {"GPL_CHANNELS": channels, "GPL_PLANES": planes, "GPL_CHUNKS": chunks, "GPL_TO_PLANES": to_planes}
            for channels in range(2, MOST_CHANNELS + 1)
            if registers(width, channels) <= most_registers(width, bits)
            for planes in range(1, channels + 1)
            for chunks in range(1, chunks_of(width, channels, 10**6, bits) + 1)
            for to_planes in (0, 1)
        ]
    return [{}]


def variants(file, widths=WIDTHS, axes=4, bits=(32, 64), all_accesses=True):
    """The macros of a file for moves with one number of axes; optionally only the narrowest and the widest accesses."""
    for width, index_bits in itertools.product(sorted({*widths} & {*ONLY_WIDTHS.get(file, WIDTHS)}), bits):
        found = accesses(file, width, index_bits)
        for access in found if all_accesses else {id(each): each for each in (found[0], found[-1])}.values():
            yield {
                "GPL_ELEMENT_BYTES": width,
                "GPL_INDEX_BITS": index_bits,
                "GPL_AXES": 1 if file == "copy.cu" else axes,
                **access,
            }


def index_variants(types, axes=(4,)):
    for (given, signed, result), (bits, digits), count in itertools.product(
        types, ((32, 32), (64, 32), (64, 64)), axes
    ):
        yield {
            "GPL_INDEX_BITS": bits,
            "GPL_DIGIT_BITS": digits,
            "GPL_AXES": count,
            "GPL_IN_BYTES": given,
            "GPL_IN_SIGNED": signed,
            "GPL_OUT_BYTES": result,
        }


def check_budget(file, architecture, macros):
    """The registers of each kernel.  CompileError or AssertionError for kernels over their budget."""
    found = nvrtc.compiled(kernel_text(file), architecture, macros).usage
    assert set(found) == set(FILES[file])
    for kernel, usage in found.items():
        where = (kernel, architecture, macros, usage)
        assert usage.spill_bytes == 0 and usage.stack_bytes == 0, where
        assert usage.registers <= MOST_REGISTERS, where
        # four blocks, and the 1 KB that each reserves, fit 100 KB; or five the 228 KB of Hopper and Blackwell
        large = kernel == "gpl_tile_nd" and 90 <= int(architecture[3:]) < 120
        assert usage.shared_bytes <= (228 * 1024 // 5 - 1024 if large else 24576), where
    return {kernel: usage.registers for kernel, usage in found.items()}


def test_all_files_are_known_here():
    assert set(kernel_files()) == set(FILES)


def test_real_plans_ask_for_these_variants_only():
    for kind, aim in AIMS.items():
        for width, number in itertools.product(aim.widths, range(50)):
            plan = drawn(kind, width, number).plan
            macros = dict(plan.macros)
            assert macros in variants(plan.file, axes=macros["GPL_AXES"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", MOVE_FILES)
def test_every_move_kernel_fits_every_architecture(file, architecture):
    """All variants on Hopper, and with `ci/test --all` on the oldest and the newest architecture, which otherwise have
    two widths; on the others these with 64-bit offsets.
    """
    few = {"widths": (2, 8), "bits": (32, 64) if architecture in ENDS else (64,)}
    more = {} if architecture in (ENDS if ALL else ("sm_90",)) else few
    for macros in variants(file, all_accesses=False, **more):
        check_budget(file, architecture, macros)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("file", ("copy.cu", "rows.cu", "tile_any.cu", "tile_nd.cu"))
def test_every_move_kernel_fits_with_every_width_of_access(file):
    for macros in variants(file, bits=(32,)):
        check_budget(file, "sm_90", macros)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("axes", AXES_VARIANTS)
def test_every_number_of_axes_fits(axes):
    """With 64-bit offsets, which take the most registers; bytes and elements of 16 bytes alternate, and so do the
    narrowest and the widest accesses of each.
    """
    number = AXES_VARIANTS.index(axes)
    widths = (1, 16) if ALL else ((1, 16)[number % 2],)
    for file in sorted({*MOVE_FILES} - {"copy.cu"}):
        found = [*variants(file, widths=widths, axes=axes, bits=(64,), all_accesses=False)]
        for macros in found if ALL else found[number // 2 % 2 :][:1] or found:
            check_budget(file, ("sm_75", "sm_90", "sm_120")[axes % 3], macros)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernel_for_many_moves_fits_every_architecture(architecture):
    for width, (axes, jobs) in itertools.product(WIDTHS, JOBS.items()):
        check_budget(
            "many.cu",
            architecture,
            {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": 32, "GPL_AXES": axes, "GPL_JOBS": jobs},
        )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_index_kernels_fit_every_architecture(architecture):
    for macros in index_variants([(8, 1, 8)]):
        check_budget("index.cu", architecture, macros)


def test_index_kernels_fit_for_all_types():
    types = [*itertools.product((1, 2, 4, 8), (0, 1), (8,)), *itertools.product((8,), (1,), (1, 2, 4))]
    for macros in index_variants(types if ALL else types[::5], axes=(1,)):
        check_budget("index.cu", "sm_90", macros)


def test_index_kernels_fit_for_every_number_of_axes():
    for macros in index_variants([(4, 0, 8)], axes=AXES_VARIANTS[:: 2 if ALL else 5]):
        check_budget("index.cu", "sm_80", macros)


# ---- machine code -----------------------------------------------------------------------------------------------


def opcodes(file, macros, architecture, text=None):
    """The instructions of a file's only kernel, without operands."""
    cubin = nvrtc.compiled(text or kernel_text(file), architecture, macros).cubin
    return [instruction.split()[0] for instruction in nvrtc.instructions(cubin, FILES[file][0])]


def of_kind(found, kind):
    return [opcode for opcode in found if opcode.split(".")[0] == kind]


def whole_tile(width, architecture, bits=32):
    """The instructions of the path of whole tiles, which nearly every block runs."""
    text = re.sub("^  else gpl_(load|store)_tile<false>.*$", "", kernel_text("tile.cu"), flags=re.MULTILINE)
    assert "<false>" not in text
    return opcodes(
        "tile.cu",
        {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": bits, "GPL_AXES": 2} | tile_macros(width)[0],
        architecture,
        text,
    )


def elements_per_thread(width):
    tile_a, tile_b = FIXED_TILES[width]
    return tile_a * tile_b // BLOCK


@pytest.mark.one_in(4)
@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("width", WIDTHS)
def test_accesses_of_16_bytes_are_single_instructions(width, architecture):
    base = {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": 32, "GPL_AXES": 4}
    narrow = 2 if width == 16 else 0  # head and tail of the copy are elements
    for file, macros, more in (
        ("copy.cu", {"GPL_LOAD_BYTES": 16}, narrow),
        # a path for chunks that are elements, and what a compiler writes out twice
        ("rows.cu", {"GPL_LOAD_BYTES": 16, "GPL_VECTOR_BYTES": 16}, 8 if width == 16 else 4),
    ):
        found = opcodes(file, base | macros, architecture)
        for kind in ("LDG", "STG"):
            assert 4 <= sum(".128" in opcode for opcode in of_kind(found, kind)) <= 4 + more, (file, kind)
        assert not of_kind(found, "LDL") + of_kind(found, "STL"), file


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize("load", (1, 2, 4, 8))
def test_misaligned_runs_are_read_16_bytes_at_a_time_and_shifted_later(load):
    """A thread issues all reads, two vectors for each of two chunks, before it stores the first chunk."""
    base = {"GPL_ELEMENT_BYTES": load, "GPL_INDEX_BITS": 32, "GPL_AXES": 4, "GPL_LOAD_BYTES": load}
    for file, more in (("copy.cu", {}), ("rows.cu", {"GPL_VECTOR_BYTES": 16})):
        found = opcodes(file, base | more, "sm_90")
        wide = [i for i, opcode in enumerate(found) if opcode.startswith("LDG") and ".128" in opcode]
        stores = [i for i, opcode in enumerate(found) if opcode.startswith("STG") and ".128" in opcode]
        assert len(wide) >= (2 if load == 8 else 4) and len(stores) == 2 and wide[-1] < stores[0], (file, wide, stores)
        shifts = [i for i, opcode in enumerate(found) if opcode.startswith("SHF.R.W")]
        assert len(shifts) == (8 if load < 4 else 0) and all(i > wide[-1] for i in shifts), (file, shifts)


# All instructions of a thread per element.  A GPU that moves 16 bytes per cycle and multiprocessor, as the fastest do,
# can issue about 15 instructions per byte of the element in that time.
MOST_INSTRUCTIONS = {1: 4, 2: 7, 4: 8, 8: 14, 16: 40}


@pytest.mark.one_in(4)
@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("width", WIDTHS)
def test_whole_tiles_move_16_bytes_at_a_time_in_few_instructions(width, architecture):
    found, elements = whole_tile(width, architecture), elements_per_thread(width)
    for kind in ("LDG", "STG", "STS"):
        assert [".128" in opcode for opcode in of_kind(found, kind)] == [True] * (elements * width // 16), kind
    kinds = [opcode.split(".")[0] for opcode in found]
    assert max(i for i, kind in enumerate(kinds) if kind == "LDG") < kinds.index("STS")  # all loads are issued first
    assert kinds.count("LDS") == elements * width // max(width, 4)  # words, never parts of words
    assert "LDL" not in kinds and "STL" not in kinds
    assert sum(kind not in ("NOP", "BRA") for kind in kinds) / elements <= MOST_INSTRUCTIONS[width]


def whole_boxes(width, pieces, architecture, *changes):
    """The instructions of a block whose boxes are whole, which read and write with all of these sizes of batches."""
    text = kernel_text("tile_nd.cu")
    asked = ("  if (in.check != GPL_WHOLE || out.check != GPL_WHOLE)", "  else if (nd.uneven)")
    for right, wrong in (*((line, line.split("if")[0] + "if (false)") for line in asked), *changes):
        assert right in text
        text = text.replace(right, wrong)
    macros = {"GPL_AXES": 4, "GPL_READ_BYTES": pieces, "GPL_WRITE_BYTES": pieces}
    found = opcodes("tile_nd.cu", {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": 32, **macros}, architecture, text)
    return [opcode.split(".")[0] for opcode in found]


def in_turns(kinds, *wanted):
    """How many of each of two kinds of instructions follow each other, in the order of the code."""
    return [len(list(group)) for _, group in itertools.groupby(kind for kind in kinds if kind in wanted)]


BATCHES = {width: {8: [8, 4, 3], 4: [4, 3], 2: [2, 1]}[rows] for width, rows in BOX_ROWS.items()}
PIECES = ((1, 1), (2, 2), (1, 4), (2, 4), (4, 4), (8, 8), (16, 16))


@pytest.mark.one_in(4)
@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_80", "sm_90", "sm_120"))
@pytest.mark.parametrize("width, pieces", [given for given in PIECES if given[1] >= 4])
def test_no_register_holds_what_is_on_its_way_to_a_box(width, pieces, architecture):
    kinds = whole_boxes(width, pieces, architecture)
    assert "LDG" not in kinds and kinds.count("LDGSTS") == sum(BATCHES[width])
    begun, ended, written = (kinds.index(kind) for kind in ("LDGSTS", "LDGDEPBAR", "STG"))
    assert begun < ended < written


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize(
    "width, pieces, architecture",
    [
        (*pair, architecture)
        for pair in PIECES
        for architecture in ("sm_75", "sm_90")
        if pair[1] < 4 or architecture < "sm_80"
    ],
)
def test_a_batch_is_read_before_any_of_it_is_put(width, pieces, architecture):
    """Where bytes go through registers on their way to a box."""
    kinds = whole_boxes(width, pieces, architecture)
    first = kinds.index("LDG")
    assert in_turns(kinds[first : kinds.index("STG")], "LDG", "STS") == [rows for rows in BATCHES[width] for _ in "LS"]


@needs_disassembler
def test_a_small_batch_is_seen():
    kinds = whole_boxes(2, 2, "sm_90", ("gpl_boxes<GPL_BATCH, GPL_NOTHING>", "gpl_boxes<2, GPL_NOTHING>"))
    assert in_turns(kinds[kinds.index("LDG") :], "LDG", "STS")[0] == 2


@pytest.mark.one_in(2)
@needs_disassembler
@pytest.mark.parametrize("architecture, boxes", [("sm_80", 1), ("sm_90", 1 + BOX_AHEAD), ("sm_100", 1 + BOX_AHEAD)])
def test_a_box_is_read_while_the_one_before_is_written(architecture, boxes):
    """A block of 3 boxes of 3^7 elements of 8 bytes: 81 rows of 27 lanes, up to 11 for a warp."""
    case = Case("3^14", transposed(8, (3,) * 14, backwards(14)))
    found = launches.run(case.record(), architecture, every=243).counted
    assert case.plan.grid == (729, 1) and found.in_flight == 11 * 8 * boxes


# Executed instructions per element, of all warps and with everything that a launch does.  A GPU that moves 16 bytes per
# cycle and multiprocessor, as the fastest do, can issue about 15 instructions per byte of the element in that time.
REVERSED = (
    *(("8^6", width, (8,) * 6, most) for width, most in ((1, 10), (2, 14), (4, 24), (8, 33))),
    ("8,16^4", 4, (8, 16, 16, 16, 16), 24),
    ("2^18", 4, (2,) * 18, 24),
)


@needs_disassembler
@pytest.mark.parametrize("name, width, dimensions, most", REVERSED)
def test_a_reversal_takes_few_instructions_however_many_axes_it_has(name, width, dimensions, most):
    case = Case(name, transposed(width, dimensions, backwards(len(dimensions))))
    assert case.plan.file == "tile_nd.cu"
    assert taken(case).per_element <= most


@needs_disassembler
def test_a_table_for_each_box_is_seen():
    """Every warp decodes the lanes, and each sum of a row is taken twice."""
    case = Case("8^6", transposed(4, (8,) * 6, backwards(6)))
    right, wrong = "  if (threadIdx.x < GPL_LANES) {\n", "  if (gpl_block() < ~0u) {\n"
    text = kernel_text("tile_nd.cu")
    assert right in text
    text = text.replace(right, wrong).replace(
        "[threadIdx.x] = gpl_lane<false>", "[threadIdx.x % GPL_LANES] = gpl_lane<false>"
    )
    text = text.replace(
        "[GPL_LANES + threadIdx.x] = gpl_lane<true>", "[GPL_LANES + threadIdx.x % GPL_LANES] = gpl_lane<true>"
    )
    text = text.replace("gpl_keep_parameters(corner, nd);\n    return;", "gpl_keep_parameters(corner, nd);")
    text = text.replace("unsigned entry = GPL_LANES + threadIdx.x;", "unsigned entry = 2 * GPL_LANES + threadIdx.x;")
    assert taken(case, text=text).per_element > 24


# ---- broken twins -----------------------------------------------------------------------------------------------


def test_a_warning_is_an_error():
    text = kernel_text("gather.cu").replace(
        "gpl_element value[GPL_PLACES];", "gpl_element value[GPL_PLACES]; int never_used;"
    )
    with pytest.raises(CompileError, match="never_used"):
        nvrtc.compiled(text, "sm_90", {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": 32, "GPL_AXES": 4})


def test_a_kernel_that_needs_a_stack_is_seen():
    """An array whose index is known only at run time cannot stay in registers and goes to memory."""
    text = kernel_text("gather.cu").replace(
        "gpl_uint to[GPL_PLACES];",
        """gpl_uint to[GPL_PLACES], many[64];
  for (int i = 0; i < 64; ++i) many[i] = move.head * i;
  for (int i = 0; i < move.head; ++i) many[move.axis[i & 3].bound & 63] += i;""",
    )
    assert "gpl_computed(value[k]," in text
    text = text.replace("gpl_computed(value[k],", "gpl_computed(value[k] + many[to[k] & 63],")
    usage = nvrtc.compiled(text, "sm_90", {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": 32, "GPL_AXES": 4}).usage[
        "gpl_gather"
    ]
    assert usage.stack_bytes > 0


def test_spills_are_seen():
    macros = {"GPL_ELEMENT_BYTES": 1, "GPL_INDEX_BITS": 64, "GPL_AXES": 4, "GPL_VECTOR_BYTES": 16, "GPL_LOAD_BYTES": 1}
    text = kernel_text("rows.cu").replace("#define GPL_SHIFTED_ITEMS 2", "#define GPL_SHIFTED_ITEMS 12")
    assert nvrtc.compiled(text, "sm_90", macros).usage["gpl_rows"].spill_bytes > 0


@needs_disassembler
def test_narrow_accesses_are_seen():
    text, right = kernel_text("rows.cu"), "    gpl_put<BYTES>(to, chunk.word);\n    return;\n"
    assert right in text
    text = text.replace(right, "    for (int i = 0; i < elements; ++i) to[i] = chunk.element[i];\n    return;\n")
    macros = {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": 32, "GPL_AXES": 4, "GPL_VECTOR_BYTES": 16, "GPL_LOAD_BYTES": 16}
    found = opcodes("rows.cu", macros, "sm_90", text)
    assert not any(".128" in opcode for opcode in of_kind(found, "STG"))
