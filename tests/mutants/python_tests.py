"""Which tests should notice a fault in a Python module: a line per kind of module, the first that fits, cheap tests
first.
"""


def _files(*names):
    return tuple(f"tests/{name.replace('/', '/test_')}.py" for names_of in names for name in names_of.split())


NUMPY, ALL = ("-m", "not simt and not gpu"), ()  # those that run on NumPy alone; all
LAYOUT = _files(
    "layout/errors layout/layout layout/element_types layout/padding layout/values layout/shape layout/strides "
    "layout/stride_tables layout/tiles layout/text layout/text_errors layout/text_oracle"
)
XLA = _files(
    "xla/bitcast xla/ignored xla/utilities xla/sizes xla/trees xla/least_padding xla/names xla/vectors "
    "xla/tiled_bitcast"
)
PROTO = _files("xla/protos xla/protos_oracle xla/protos_many_shapes layout/fuzz_readers")
HLO = _files("xla/hlo xla/hlo_results xla/hlo_reports cli/show_hlo xla/trees layout/text_errors")
COPIES = _files("xla/hlo_copies cli/hlo_copies")
DOORS = _files("requests/bad_arguments requests/slips calls/arrays_oracle arrays/foreign_arrays")
PLANNING = _files(
    "gpu/division moves/supported gpu/choose_kernel moves/move gpu/index_width gpu/traffic gpu/many_axes "
    "choices/explain"
)
MOVES = _files("moves/random moves/packed moves/lookup calls/many moves/tiled moves/exhaustive")
INDICES = _files("moves/index_split moves/index_empty moves/index_conversion moves/index_tiled cpu/index_program")
IN_PLACE = _files("moves/in_place moves/streamed_in_place running/in_place running/padded_in_place")
FRONT = _files(
    "requests/bad_arguments calls/transpose running/known_calls running/repeated_calls arrays/strided_outputs "
    "requests/slips calls/transfer requests/given_layouts plans/plan_part arrays/buffers_of_many_dimensions "
    "running/same_kind running/in_place running/arithmetic_in_place requests/arithmetic_errors "
    "requests/arithmetic_slips requests/arithmetic requests/arithmetic_kinds arrays/foreign_arrays calls/arrays_oracle"
)
GRAPHS_OF_ARRAYS = "traced/array_in_graphs traced/inside_torch_compile"
ARITHMETIC = (
    "requests/arithmetic_slips requests/arithmetic requests/arithmetic_kinds plans/plan_arithmetic "
    "running/arithmetic_in_place torch/arithmetic"
)
GRAPHS = _files("traced/inside_torch_compile traced/jax_transforms traced/traced_arithmetic calls/gradients")
PICTURES = _files("pictures/figure pictures/picture pictures/plan_picture pictures/svg pictures/text pictures/pages")
RANDOM = tuple(
    f"tests/kernels/test_random.py::test_random_moves_are_right[{kind}-{width}]"
    for kind, width in (
        ("copy", 4),
        ("rows", 4),
        ("gather", 4),
        ("tile", 4),
        ("odd tile", 4),
        ("channels", 4),
        ("many axes", 4),
        ("words", 1),
    )
)
TRACE = ("tests/kernels/test_trace.py::test_traffic_is_what_the_table_says",)
SPARSE = ("tests/kernels/test_sparse.py::test_the_ends_of_a_huge_move_are_right",)
KERNELS = (*PLANNING, "tests/kernels/test_struct.py", *RANDOM, *TRACE, *SPARSE)
LAUNCHES = _files("gpu/launches gpu/launch_threads gpu/cupy_runtime gpu/launch_counts gpu/streams")

TESTS = (
    ("layout/digits.py", NUMPY, (*LAYOUT, *XLA, *INDICES, *MOVES)),
    ("layout/same_places.py", NUMPY, XLA),
    ("layout/names.py", NUMPY, _files("layout/named")),
    ("layout/pitch.py", NUMPY, _files("layout/pitch")),
    ("layout/picture.py", NUMPY, PICTURES),
    ("layout/argument_hints.py", NUMPY, _files("layout/hints")),
    ("layout/*", NUMPY, (*LAYOUT, *XLA, *DOORS, *MOVES)),
    ("xla/hlo.py", NUMPY, HLO),
    ("xla/hlo_results.py", NUMPY, HLO),
    ("xla/hlo_program.py", NUMPY, (*HLO, *COPIES)),
    ("xla/hlo_copies.py", NUMPY, COPIES),
    ("xla/proto*", NUMPY, PROTO),
    ("xla/types.py", NUMPY, (*_files("layout/element_types"), *XLA)),
    ("xla/*", NUMPY, XLA),
    (
        "interop/*",
        NUMPY,
        _files("interop/cute interop/cute_types interop/numpy_and_torch interop/jax interop/tensorrt interop/zarr")
        + _files("cli/layout_names"),
    ),
    ("pictures/page.py", NUMPY, _files("cli/page pictures/svg")),
    ("pictures/*", NUMPY, PICTURES),
    (
        "memory/*",
        ALL,
        _files("memory/foreign_memory memory/host_arrays memory/mapped_files arrays/foreign_arrays gpu/cupy_runtime"),
    ),
    ("moves/index_*", ALL, (*INDICES, *_files("gpu/index_width kernels/index_program kernels/struct kernels/sparse"))),
    *(
        (f"moves/{name}.py", NUMPY, _files("moves/runs moves/boxes plans/blocks moves/blocks"))
        for name in ("runs", "boxes", "blocks")
    ),
    *((f"{name}.py", NUMPY, IN_PLACE) for name in ("moves/*in_place", "moves/steps")),
    ("running/in_place.py", ALL, (*IN_PLACE, *_files("calls/transfer gpu/launches"))),
    ("moves/packed_*", ALL, _files("moves/packed choices/explain kernels/bits")),
    ("moves/lookup_*", ALL, _files("moves/lookup kernels/lookup moves/packed choices/explain")),
    ("moves/lower*", NUMPY, _files("moves/lowering traced/inside_torch_compile traced/jax_transforms")),
    *(
        (
            f"moves/{name}.py",
            NUMPY,
            _files(
                "calls/transpose arrays/strided_outputs moves/lookup moves/tiled moves/packed moves/bit_order "
                "calls/transfer moves/lowering moves/random moves/exhaustive choices/explain requests/arithmetic"
            ),
        )
        for name in ("placement", "pieces")
    ),
    ("moves/*", NUMPY, (*PLANNING, *INDICES, *MOVES)),
    ("cpu/index*", NUMPY, INDICES),
    ("cpu/packed_*", NUMPY, _files("moves/packed cpu/threads")),
    ("cpu/run.py", NUMPY, (*_files("cpu/threads calls/transfer"), *IN_PLACE, *MOVES)),
    ("cpu/*", NUMPY, (*_files("cpu/plan cpu/threads choices/explain calls/transfer"), *MOVES)),
    ("gpu/bits.py", ALL, _files("moves/packed choices/explain kernels/bits kernels/bits_turn kernels/bits_turn_wide")),
    ("gpu/element_width.py", ALL, (*KERNELS, *_files("gpu/convert kernels/convert kernels/one_pass"))),
    ("gpu/choose_kernel.py", ALL, (*KERNELS, *_files("moves/lookup kernels/lookup moves/packed choices/explain"))),
    (
        "gpu/many.py",
        ALL,
        (
            *_files("calls/many kernels/many kernels/struct"),
            "tests/kernels/test_random.py::test_random_moves_are_right_in_shared_launches",
        ),
    ),
    (
        "gpu/index_launch.py",
        ALL,
        (
            *INDICES,
            *_files(
                "gpu/index_table gpu/index_run kernels/index_program kernels/struct kernels/sparse "
                "kernels/linearize_broadcast gpu/cupy_runtime"
            ),
        ),
    ),
    *(
        (
            f"gpu/{name}.py",
            ALL,
            _files("gpu/cost_model gpu/kernel_costs gpu/arithmetic_costs choices/explain cli/commands"),
        )
        for name in ("cost_model", "devices", "estimate", "kernel_costs")
    ),
    ("gpu/traffic.py", ALL, (*PLANNING, *_files("kernels/trace cpu/plan"))),
    (
        "gpu/parameters.py",
        ALL,
        (*KERNELS, *_files("kernels/index_program kernels/lookup moves/index_conversion moves/index_tiled")),
    ),
    ("gpu/channels.py", ALL, (*KERNELS, *_files("kernels/channels"))),
    ("gpu/driver.py", ALL, _files("gpu/driver choices/backends")),
    ("gpu/held.py", ALL, _files("gpu/held memory/foreign_memory")),
    ("gpu/kernel_source.py", ALL, _files("kernels/struct kernels/kernel_numbers ci/packaging")),
    ("gpu/kernel_numbers.py", ALL, (*_files("kernels/kernel_numbers kernels/struct"), *KERNELS)),
    *(
        (f"gpu/{name}.py", ALL, (*LAUNCHES, *_files("calls/many moves/index_conversion gpu/convert gpu/uploads")))
        for name in ("run", "runtime", "cupy_runtime")
    ),
    ("gpu/uploads.py", ALL, _files("gpu/uploads gpu/convert gpu/launch_threads")),
    ("gpu/*", ALL, KERNELS),
    *(
        (
            name,
            NUMPY,
            (
                *DOORS,
                *_files("running/same_kind running/known_calls calls/gradients arrays/buffers_of_many_dimensions"),
            ),
        )
        for name in ("arrays/librar*", "running/same_kind.py", "arrays/torch_tensors.py", "arrays/jax_arrays.py")
    ),
    *(
        (name, ALL, (*FRONT, *GRAPHS, *_files("requests/byte_order files/arithmetic gpu/other_libraries gpu/launches")))
        for name in ("requests/reading.py", "running/request.py", "running/running.py")
    ),
    ("arrays/memory_checks.py", NUMPY, (*FRONT, *_files("moves/packed calls/array traced/array_in_graphs"))),
    *(
        (f"requests/{name}.py", NUMPY, _files("requests/arithmetic_errors requests/parameter_law", ARITHMETIC))
        for name in ("arithmetic", "parameters")
    ),
    ("calls/transpose.py", NUMPY, _files("calls/transpose calls/whose_words requests/bad_arguments calls/names")),
    ("calls/view.py", NUMPY, _files("calls/transpose calls/whose_words requests/given_layouts requests/bad_arguments")),
    ("calls/many.py", NUMPY, _files("calls/many running/same_kind calls/array", GRAPHS_OF_ARRAYS)),
    ("requests/index_keys.py", NUMPY, _files("calls/array plans/plan_part plans/blocks traced/array_in_graphs")),
    ("codegen/*", ALL, _files("codegen/code codegen/code_convert kernels/code")),
    ("indices/*", ALL, (*DOORS, *INDICES, *_files("indices/traced_indices gpu/launches gpu/cupy_runtime"))),
    (
        "plans/plan.py",
        ALL,
        _files(
            "plans/blocks calls/transfer plans/plan_arithmetic plans/plan_part choices/explain moves/blocks "
            "cli/relayout pictures/plan_picture traced/compiled_objects"
        ),
    ),
    (
        "plans/plan_value.py",
        NUMPY,
        _files("plans/plan_arithmetic calls/transfer traced/compiled_objects calls/completion"),
    ),
    ("plans/stream.py", ALL, _files("plans/stream_arguments plans/stream gpu/lanes")),
    ("plans/plan_blocks.py", NUMPY, _files("plans/blocks moves/blocks")),
    (
        "choices/explain.py",
        NUMPY,
        _files("choices/explain cli/commands pictures/plan_picture requests/arithmetic calls/many"),
    ),
    (
        "files/*",
        NUMPY,
        _files(
            "files/npy files/source files/target files/new_files files/other_formats cli/file_dimensions cli/relayout "
            "files/header_offset files/byte_order "
            "files/engine files/memory files/route files/relayout_file_arguments cli/large_files cli/packing "
            "cli/standard_streams cli/signals"
        ),
    ),
    ("dask/*", NUMPY, _files("dask/slabs dask/moving dask/indexing dask/errors")),
    (
        "catalogue/*",
        NUMPY,
        _files("catalogue/entries catalogue/names catalogue/judges catalogue/page catalogue/tensors"),
    ),
    ("cli/catalogue.py", NUMPY, _files("cli/catalogue catalogue/page")),
    ("torch/*", NUMPY, _files("torch/gradients torch/modules torch/arithmetic")),
    (
        "traced/traced*",
        NUMPY,
        _files(
            "traced/inside_torch_compile traced/jax_transforms traced/traced_arithmetic indices/traced_indices "
            "traced/patterns_in_graphs traced/traced_parameters"
        ),
    ),
    *(
        (name, NUMPY, _files("calls/array calls/array_equality traced/array_in_graphs running/same_kind"))
        for name in (
            "calls/array*",
            "running/array_calls.py",
            "traced/array_graphs.py",
            "arrays/array_*",
            "arrays/shaped_buffer.py",
        )
    ),
    (
        "requests/shape_arguments.py",
        NUMPY,
        _files("calls/array running/same_kind requests/targets arrays/buffers_of_many_dimensions"),
    ),
    (
        "*",  # the rooms of calls, from choices to codegen
        ALL,
        (
            *_files(
                "calls/transfer choices/backends calls/many calls/transpose choices/explain cpu/threads moves/random "
                "moves/packed moves/tiled running/same_kind arrays/buffers_of_many_dimensions"
            ),
            *DOORS,
            *LAUNCHES,
        ),
    ),
)
