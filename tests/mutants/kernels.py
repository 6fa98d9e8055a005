"""Kernel mutants as changes of files, and which tests should notice a fault in a kernel, cheap ones first.

These tests run unchanged kernels.  Tests that change a kernel themselves, to show that they would notice, prove nothing
here.
"""

import itertools

from tests.mutants import trial
from tests.mutants.kernel_table import MUTANTS
from tests.support.convert_cases import CASES
from tests.support.kernel_cases import kernel_files

HEADERS = {
    "shift.cuh": ("copy.cu", "rows.cu"),
    "arrive.cuh": ("tile_nd.cu",),
    "gather.cuh": ("gather.cu", "many.cu"),
    "bit_order.cuh": ("bits.cu", "bits_any.cu", "bits_turn.cu", "bits_turn_wide.cu", "bits_turn_any.cu", "lookup.cu"),
    "bits.cuh": ("bits.cu", "bits_any.cu", "bits_turn_any.cu", "lookup.cu"),
    "bits_turn.cuh": ("bits_turn.cu", "bits_turn_wide.cu", "bits_turn_any.cu"),
    "instructions.cuh": ("lookup.cu", "index_program.cu"),
    "index.cuh": ("index.cu", "index_program.cu"),
    "coordinate.cuh": ("index.cu", "index_program.cu"),
}
KINDS = {
    "copy.cu": "copy",
    "rows.cu": "rows",
    "tile.cu": "tile",
    "tile_any.cu": "odd tile",
    "tile_words.cu": "words",
    "channels.cu": "channels",
    "tile_nd.cu": "many axes",
    "box_words.cu": "word boxes",
    "gather.cu": "gather",
}

# Of the files of single moves of whole bytes; the last ones run under the sanitizers, or count sectors and bank
# conflicts.
MOVES = (
    "tests/kernels/test_sparse.py::test_the_ends_of_a_huge_move_are_right",
    "tests/kernels/test_sparse.py::test_nothing_is_read_past_a_huge_source",
    "tests/kernels/test_struct.py::test_a_move_arrives_field_by_field",
    "tests/kernels/test_orders.py::test_every_family_writes_the_reference_bytes_in_every_order",
    "tests/kernels/test_orders.py::test_every_number_of_axes_is_right",
    "tests/kernels/test_trace.py::test_traffic_is_what_the_table_says",
    "tests/kernels/test_sanitized.py::test_every_family_is_clean_and_right",
)
WORDS = (
    "tests/kernels/test_words.py::test_all_phases_of_both_addresses_are_right",
    "tests/kernels/test_sparse.py::test_words_at_both_ends_of_a_huge_source_are_known",
)
TRACED = ("tests/kernels/test_words.py::test_no_word_is_read_or_written_that_a_buffer_holds_in_part",)
WORD_BOXES = (
    "tests/kernels/test_word_boxes.py::test_a_block_moves_several_boxes",
    "tests/kernels/test_word_boxes.py::test_no_word_is_read_or_written_that_a_buffer_holds_in_part",
)
CHANNELS = ("tests/kernels/test_channels.py::TestBytes",)
HUGE = ("tests/kernels/test_sparse_bits.py::test_the_ends_of_a_huge_packed_move_are_right",)
PACKED = (
    "tests/kernels/test_bits.py::test_every_pair_of_widths_is_right",
    "tests/kernels/test_bits.py::test_every_bit_order_is_right",
    "tests/kernels/test_bits.py::test_many_axes_are_right",
    *HUGE,
    "tests/moves/test_packed.py",
)
CLEAN_BITS = (
    "tests/kernels/test_bits.py::test_no_word_is_read_or_written_that_a_buffer_holds_in_part",
    "tests/kernels/test_bits.py::test_the_kernels_are_clean",
)
INDICES = (
    "tests/kernels/test_random.py::test_random_indices_are_converted",
    "tests/kernels/test_sparse.py::test_indices_of_huge_buffers_are_converted",
    "tests/kernels/test_sparse.py::test_more_than_2_to_the_32_indices_are_converted",
    "tests/kernels/test_struct.py::test_an_index_table_arrives_field_by_field",
    "tests/moves/test_index_conversion.py",
    "tests/moves/test_index_padding.py",
    "tests/moves/test_index_split.py::test_indices_of_huge_shapes_are_those_of_python_integers",
    "tests/kernels/test_sanitized.py::test_index_kernels_are_clean_and_right_for_all_types",
)
# Of moves with arithmetic: a test for each case of a file, and those of all files.
CHANGED = {
    file: tuple(
        f"tests/gpu/test_convert.py::test_a_move_with_arithmetic_writes_what_the_model_says[{case.name}-simt]"
        for case in CASES
        if case.plan.file == file
    )
    for file in dict.fromkeys(case.plan.file for case in CASES)
}
CHANGED_TESTS = (
    "tests/gpu/test_convert.py::test_parameters_may_run_backwards",
    "tests/kernels/test_one_pass.py::test_the_kernels_are_clean",
    "tests/kernels/test_one_pass.py::test_offsets_beyond_2_to_the_32_are_right",
    "tests/kernels/test_sparse.py::test_places_of_rows_in_huge_parameters_are_right",
)
TESTS = {
    **{
        file: (
            *CHANGED.get(file, ()),
            *(
                f"tests/kernels/test_random.py::test_random_moves_are_right[{kind}-{width}]"
                for width in ((1, 2) if kind in ("words", "word boxes") else (1, 4))
            ),
            *({"words": (*WORDS, *TRACED), "channels": CHANNELS, "word boxes": WORD_BOXES}.get(kind, ())),
            *MOVES,
            *(CHANGED_TESTS if file in CHANGED else ()),
        )
        for file, kind in KINDS.items()
    },
    "bits.cu": (*PACKED, *CLEAN_BITS),
    "bits_any.cu": (*PACKED, *CLEAN_BITS),
    "bits_turn.cu": (
        "tests/kernels/test_bits.py::test_blocks_are_turned_right",
        "tests/kernels/test_bits.py::test_blocks_of_every_bit_order_are_turned_right",
        *HUGE,
        *CLEAN_BITS,
    ),
    "bits_turn_wide.cu": (
        "tests/kernels/test_bits_turn_wide.py::test_blocks_are_turned_right_in_vectors",
        *HUGE,
        "tests/kernels/test_bits_turn_wide.py::test_the_kernel_is_clean",
    ),
    "bits_turn_any.cu": (
        "tests/kernels/test_bits.py::test_blocks_of_every_bit_order_are_turned_right",
        "tests/kernels/test_bits_turn.py::test_rows_that_begin_anywhere_are_right",
        *HUGE,
        "tests/kernels/test_bits_turn.py::test_random_arrays_are_right",
        "tests/kernels/test_bits_turn.py::test_no_word_is_read_or_written_that_a_buffer_holds_in_part",
        "tests/kernels/test_bits_turn.py::test_the_kernel_is_clean",
    ),
    "lookup.cu": (
        "tests/kernels/test_lookup.py::test_packed_and_unpacked_are_right",
        "tests/kernels/test_lookup.py::test_elements_of_all_widths_are_right",
        "tests/kernels/test_sparse.py::test_places_beyond_2_to_the_32_are_looked_up",
        "tests/kernels/test_sparse.py::test_places_are_looked_up_for_an_array_with_strides_beyond_2_to_the_32",
        "tests/moves/test_lookup.py",
        "tests/kernels/test_lookup.py::test_the_kernel_is_clean",
    ),
    "element.cuh": (*itertools.chain(*CHANGED.values()), *CHANGED_TESTS),
    "convert.cuh": (
        "tests/kernels/test_convert.py::test_every_code_to_every_type",
        "tests/kernels/test_convert.py::test_bits_above_the_value_are_ignored",
        "tests/kernels/test_convert.py::test_numbers_of_32_and_64_bits_to_every_type",
        "tests/kernels/test_convert.py::test_steps_round_once_each",
        "tests/kernels/test_convert.py::test_steps_of_floats_of_every_size",
        "tests/kernels/test_convert_machine_code.py::test_casts_are_right",
        "tests/kernels/test_convert_machine_code.py::test_casts_of_other_architectures_are_right",
        "tests/kernels/test_convert_machine_code.py::test_steps_are_right",
        "tests/kernels/test_convert_machine_code.py::test_every_byte_is_normalised_as_it_should",
        "tests/kernels/test_convert_machine_code.py::test_quotients_that_are_rounded_next_are_right",
    ),
    "index.cu": INDICES,
    "index_program.cu": (
        "tests/kernels/test_index_program.py::test_the_kernels_are_clean_and_right",
        "tests/kernels/test_index_program.py::test_nothing_is_written_for_a_bad_index_among_good_ones",
        "tests/moves/test_index_padding.py",
        "tests/moves/test_index_tiled.py",
    ),
    "many.cu": (
        "tests/kernels/test_random.py::test_random_moves_are_right_in_shared_launches",
        "tests/calls/test_many.py",
        "tests/kernels/test_many.py::test_jobs_of_all_families_are_clean_and_right",
    ),
}


def killers(file):
    """The arguments of pytest for a kernel file, or for a header: those of the files that take it, or of all."""
    files = (file,) if file in TESTS else HEADERS.get(file, kernel_files())
    return tuple(dict.fromkeys(test for each in files for test in TESTS[each]))


def changed_text(before, mutant):
    """The text with the fault; None unless the text to replace stands there exactly once."""
    return before.replace(mutant.old, mutant.new) if before.count(mutant.old) == 1 else None


def changes(only=""):
    """The Change of each mutant whose name contains a text; those that no test can notice come last, since they take
    longest.
    """
    for mutant in sorted(MUTANTS, key=lambda mutant: bool(mutant.equivalent)):
        if only in mutant.name:
            file = f"kernels/{mutant.file}"
            text = changed_text((trial.ROOT / file).read_text(encoding="utf-8"), mutant)
            shown = f"{mutant.old.strip()}\n  became  {mutant.new.strip()}"
            yield trial.Change(mutant.name, file, text, (killers(mutant.file),), shown, equivalent=mutant.equivalent)
