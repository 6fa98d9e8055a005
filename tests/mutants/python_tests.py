"""Which tests should notice a fault in a Python module: a line per kind of module, the first that fits, cheap tests first."""


def _files(names):
    return tuple(f"tests/test_{name}.py" for name in names.split())


NUMPY, ALL = ("-m", "not simt and not gpu"), ()        # those that run on NumPy alone; all
MODEL = _files("errors_model model_layout model_types model_padding model_value model_shape model_tuples model_strides model_bitcast "
                         "model_utilities model_data_size waste model_tiling model_text_errors xla_names xla_vectors model_tiled_bitcast "
                         "oracle_text oracle_arrays oracle_proto model_proto model_text bad_arguments index_conversion packed_elements hlo_text")
HLO = _files("hlo_text cli_hlo model_tuples model_text_errors")
PROTO = _files("model_proto oracle_proto proto_many_shapes fuzz_readers")
PLANNING = _files("planning_division planning_supported planning_families planning_move planning_tables planning_index_width planning_traffic "
                  "planning_boxes planning_explain")
MOVES = _files("moves_random packed_elements moves_lookup relayout_many moves_tiled moves_exhaustive")
INDICES = _files("index_split index_empty index_conversion index_tiled host_index_program")
RANDOM = tuple(f"tests/test_kernels_random.py::test_random_moves_are_right[{kind}-{width}]"
               for kind, width in (("copy", 4), ("rows", 4), ("gather", 4), ("tile", 4), ("odd tile", 4), ("channels", 4), ("many axes", 4), ("words", 1)))
TRACE = ("tests/test_kernels_trace.py::test_traffic_is_what_the_table_says",)
SPARSE = ("tests/test_kernels_sparse.py::test_the_ends_of_a_huge_move_are_right",)
KERNELS = (*PLANNING, "tests/test_kernels_struct.py", *RANDOM, *TRACE, *SPARSE)

TESTS = (
    ("model/hlo_*", NUMPY, HLO),
    ("model/proto_*", NUMPY, PROTO),
    ("model/digits.py", NUMPY, (*MODEL, *INDICES, *MOVES)),
    ("model/*", NUMPY, MODEL),
    ("planning/host_index_program.py", NUMPY, _files("host_index_program index_tiled index_conversion index_split")),
    ("planning/host_registers.py", NUMPY, _files("host_index_program index_tiled")),
    ("planning/host_sums.py", NUMPY, _files("host_index_program index_tiled")),
    ("planning/host_*", NUMPY, (*_files("host_plan threads planning_explain"), *MOVES)),
    ("planning/bits_host.py", NUMPY, _files("packed_elements threads")),
    ("planning/bits_*", ALL, _files("packed_elements planning_explain kernels_bits")),
    ("planning/lookup_*", ALL, _files("moves_lookup kernels_lookup packed_elements planning_explain")),
    ("planning/many_plan.py", ALL, (*_files("relayout_many kernels_many kernels_struct"), "tests/test_kernels_random.py::test_random_moves_are_right_in_shared_launches")),
    ("planning/index_*", ALL, _files("planning_index_width index_split index_conversion index_tiled kernels_index_program kernels_struct kernels_sparse")),
    ("planning/strided_program.py", NUMPY, INDICES),
    ("planning/explain.py", NUMPY, _files("planning_explain cli")),
    ("planning/piece*.py", NUMPY, (*PLANNING, *MOVES)),
    ("planning/move.py", NUMPY, (*PLANNING, *MOVES)),
    *((f"planning/{name}.py", NUMPY, (*PLANNING, *INDICES, *MOVES)) for name in ("tiled_side", "affine_box", "supported")),
    ("planning/traffic.py", ALL, (*PLANNING, *_files("kernels_trace host_plan"))),
    ("planning/parameters.py", ALL, (*KERNELS, *_files("kernels_index_program kernels_lookup index_conversion index_tiled"))),
    ("planning/channel_plan.py", ALL, (*KERNELS, "tests/test_kernels_channels.py")),
    ("planning/*", ALL, KERNELS),
    ("backends/numpy_index*", NUMPY, INDICES),
    ("backends/numpy_*", NUMPY, (*_files("host_plan threads"), *MOVES, *INDICES)),
    ("backends/cu*", ALL, _files("launches launch_threads cupy_backend gpu_launches gpu_streams relayout_many index_conversion")),
    ("backends/argument_block.py", ALL, _files("launches launch_threads cupy_backend gpu_launches")),
    ("backends/elementwise.py", ALL, _files("kernels_elementwise cupy_backend index_conversion")),
    ("backends/kernel_source.py", ALL, _files("kernels_struct packaging")),
    ("backends/*", ALL, _files("backend_selection foreign_arrays bad_arguments cupy_backend launches index_conversion relayout_many threads moves_random")),
    ("operations/*index*", ALL, _files("bad_arguments index_empty index_conversion index_tiled index_split launches cupy_backend")),
    ("operations/many.py", ALL, _files("relayout_many bad_arguments launches")),
    ("operations/*", ALL, _files("bad_arguments planning_explain launches cupy_backend threads foreign_arrays moves_random packed_elements moves_tiled")),
)
