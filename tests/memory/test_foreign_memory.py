"""Memory of other libraries is shared, never copied, and its flags are obeyed.

The tests use hand-made DLPack capsules and `__cuda_array_interface__`, with NumPy's memory, on the fake CuPy, and on a
GPU.
"""

import gc
import types

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.memory.foreign_memory import cuda_interface_memory
from tests.gpu.test_streams import keep_busy
from tests.support.device_arrays import on_gpu_alone
from tests.support.foreign import COPIED, READ_ONLY, Interface, OldProducer, Producer, UsedProducer, address_of
from tests.support.gpu_gate import needs_devices
from tests.support.waiting import wait_until

SOURCE, TARGET = "f32[2,3]{1,0}", "f32[2,3]{0,1}"
MOVED = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
FLOATS = np.arange(6, dtype=np.float32)


def refused(call, text, error=BufferError):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    return str(caught.value)


def offers(place):
    """The producers that can export an array of this place."""
    return [Producer, OldProducer] if place.on_host else [Producer, OldProducer, Interface]


def all_deleted(producer):
    """Whether every capsule that a producer made was deleted exactly once; on a GPU, when its work is done."""
    gc.collect()
    wait_until(lambda: producer.deleted >= producer.made)
    return producer.made > 0 and producer.deleted == producer.made


# ---- shared memory -------------------------------------------------------------------------------------------------


def test_memory_is_read_and_written_in_place(place):
    for offer in offers(place):
        buffer, out = place.array(FLOATS), place.array(np.zeros(6, np.float32))
        given = offer(out)
        assert gl.relayout(offer(buffer), SOURCE, TARGET, out=given) is given
        assert place.host(out).tolist() == MOVED
        opened = arrays.open_array(given, "out", writing=True)[1]
        assert address_of(opened) == address_of(out) and opened.shape == (6,) and opened.dtype == np.float32


def test_strides_offsets_and_orders(place):
    array = place.array(np.arange(120, dtype=np.int16).reshape(5, 4, 6))
    parts = [
        array,
        array[1:4, ::2, ::3],
        array[::-2, ::-1, 1::2],
        array.transpose(2, 0, 1),
        array[2:3, 1:2, 3:4],
        array[:, 0:0],
    ]
    for offer in offers(place):
        for part in parts:
            shape = gl.Shape("s16", part.shape, gl.Layout((1, 0, 2)))
            found, expected = gl.pack(offer(part), shape), gl.pack(np.array(place.host(part)), shape)
            assert place.host(found).tobytes() == expected.tobytes(), (offer, part.shape)
            if part.size:
                out = offer(part)
                assert gl.unpack(found, shape, out=out) is out
    assert place.host(array).ravel().tolist() == list(range(120))


def test_the_byte_offset_of_a_capsule_counts_and_missing_strides_are_c_order(place):
    array = place.array(np.arange(10, dtype=np.float32))
    for version in ((1, 0), (1, 3), None):
        producer = Producer(array, version, byte_offset=8, shape=(2, 3), strides=None, ndim=2)
        assert place.host(gl.pack(producer, TARGET)).tolist() == [2, 5, 3, 6, 4, 7]


@pytest.mark.parametrize(
    "element_type, code",
    [
        ("s8", 0),
        ("u64", 1),
        ("f16", 2),
        ("f64", 2),
        ("c64", 5),
        ("c128", 5),
        ("pred", 6),
        ("bf16", 4),
        ("f8e3m4", 7),
        ("f8e4m3", 8),
        ("f8e4m3b11fnuz", 9),
        ("f8e4m3fn", 10),
        ("f8e4m3fnuz", 11),
        ("f8e5m2", 12),
        ("f8e5m2fnuz", 13),
        ("f8e8m0fnu", 14),
    ],
)
def test_every_dtype_of_dlpack_that_is_an_element_type(place, element_type, code):
    shape = gl.Shape(element_type, (2, 3), gl.Layout((0, 1)))
    raw = np.arange(6 * shape.itemsize, dtype=np.uint8) % (2 if element_type == "pred" else 251)
    array = place.array(raw.view(f"u{shape.itemsize}") if shape.itemsize <= 8 else raw.view(np.complex128))
    found = gl.pack(Producer(array.reshape(2, 3), code=code), shape)
    expected = gl.pack(raw.view(shape.dtype).reshape(2, 3), shape)
    assert place.host(found).tobytes() == expected.tobytes()
    assert found.dtype in (shape.dtype, shape.element_type.carrier if shape.element_type.is_extended else None)
    assert gl.shape_of(Producer(array, code=code)).itemsize == shape.itemsize


def test_scalars_and_empty_arrays_need_no_strides_and_no_address(place):
    for offer in offers(place):
        assert place.host(gl.pack(offer(place.array(np.float64(7.5))), "f64[]")).tolist() == [7.5]
    empty = place.array(np.zeros((0, 3), np.float32))
    padded = "f32[0,3]{0,1:PD(2,3)PV(1)}"
    nowhere = [Producer(empty, data=0), OldProducer(empty, data=0), Producer(empty, data=0, strides=None)]
    for producer in nowhere + (
        [] if place.on_host else [Interface(empty, data=(0, False)), Interface(empty, strides=None)]
    ):
        assert place.host(gl.pack(producer, padded)).tolist() == [1.0] * 6


@pytest.mark.usefixtures("quick_collections")
def test_a_capsule_is_deleted_once_when_nothing_uses_the_memory(place):
    for offer in (Producer, OldProducer):
        producer, out = offer(place.array(FLOATS)), offer(place.array(np.zeros(6, np.float32)))
        gl.relayout(producer, SOURCE, TARGET, out=out)
        assert all_deleted(producer) and all_deleted(out)
        view = gl.view(producer, TARGET)
        part = view[1:]
        del view
        gc.collect()
        assert producer.made == producer.deleted + 1
        assert place.host(part).tolist() == [[1.0, 3.0, 5.0]]
        del part
        assert all_deleted(producer)


def test_the_newest_version_is_asked_for_and_a_producer_from_before_versions_is_asked_again(place):
    new, old = Producer(place.array(FLOATS)), OldProducer(place.array(FLOATS))
    stream = None if place.on_host else 1
    gl.relayout(new, SOURCE, TARGET)
    gl.relayout(old, SOURCE, TARGET)
    assert new.asked == {"stream": stream, "max_version": (1, 0)} and old.asked == {"stream": stream}
    assert new.made == old.made == 1


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_collections")
def test_read_only_memory_is_read_and_not_written(place):
    memory = place.array(FLOATS)
    frozen = [Producer(memory, flags=READ_ONLY)]
    if not place.on_host:
        frozen.append(Interface(memory, data=(address_of(memory), True)))
    for given in frozen:
        assert place.host(gl.relayout(given, SOURCE, TARGET)).tolist() == MOVED
        calls = [
            lambda: gl.relayout(memory.copy(), SOURCE, TARGET, out=given),
            lambda: gl.plan(SOURCE, TARGET)(memory.copy(), out=given),
            lambda: gl.pack(memory.copy().reshape(2, 3), TARGET, out=given),
            lambda: gl.relayout_many([(memory.copy(), SOURCE, TARGET)], out=[given]),
        ]
        for call in calls:
            message = refused(call, "out is read-only: it cannot be written to")
            assert message.removeprefix("job 0: ") == "out is read-only: it cannot be written to"
    assert all_deleted(frozen[0])
    assert place.host(memory).tolist() == FLOATS.tolist()
    if place.on_host:
        assert not gl.view(frozen[0], TARGET).flags.writeable
    else:  # CuPy has no such flag: a view would let anyone write, this library too
        for given in frozen:
            refused(lambda: gl.view(given, TARGET), "buffer is read-only, but its view would be a CuPy array")


@pytest.mark.usefixtures("quick_collections")
def test_a_copy_is_refused(place):
    memory = place.array(FLOATS)
    copied = Producer(memory, flags=COPIED)
    for role, call in (
        ("buffer", lambda: gl.relayout(copied, SOURCE, TARGET)),
        ("out", lambda: gl.relayout(memory.copy(), SOURCE, TARGET, out=copied)),
    ):
        refused(
            call, f"{role} (tests.support.foreign.Producer) cannot be used without a copy: its __dlpack__ made a copy"
        )
    assert all_deleted(copied) and place.host(memory).tolist() == FLOATS.tolist()


@pytest.mark.parametrize("offer", [Producer, OldProducer])
@pytest.mark.parametrize(
    "module, library", [("jaxlib._jax", "JAX"), ("jax", "JAX"), ("tensorflow.python", "TensorFlow")]
)
def test_arrays_of_libraries_whose_arrays_never_change_are_not_written(place, module, library, offer):
    kind = type("Array", (offer,), {"__module__": module})
    given = kind(place.array(FLOATS))
    refused(
        lambda: gl.relayout(place.array(FLOATS), SOURCE, TARGET, out=given),
        f"out is read-only: {library} arrays never change",
    )
    assert given.made == 0


LIES = [
    ({"version": (2, 0)}, "its DLPack version is 2.0: only versions below 2 are supported"),
    ({"ndim": -1}, "its capsule has -1 dimensions: 64 is the limit"),
    ({"ndim": 65}, "its capsule has 65 dimensions"),
    ({"shape": (-6,)}, "its shape is (-6,): a size is negative"),
    ({"data": 0}, "its address is 0x0"),
    (
        {"code": 3},
        "its DLPack dtype, code 3 with 32 bits and 1 lanes, has no NumPy equivalent; a type NumPy or CuPy lacks",
    ),
    ({"code": 17, "bits": 4}, "code 17 with 4 bits and 1 lanes"),
    ({"lanes": 4}, "code 2 with 32 bits and 4 lanes"),
    ({"lanes": 0}, "code 2 with 32 bits and 0 lanes"),
    ({"bits": 31}, "code 2 with 31 bits"),
    ({"code": 255}, "code 255 with 32 bits"),
    ({"device_type": 8}, "its capsule is for a device of DLPack type 8, but its __dlpack_device__ is not"),
]


@pytest.mark.usefixtures("quick_collections")
@pytest.mark.one_in(3)
@pytest.mark.parametrize("lie, text", LIES)
def test_capsules_that_no_array_can_have(place, lie, text):
    producer = Producer(place.array(FLOATS), **lie)
    for role, call in (
        ("buffer", lambda: gl.relayout(producer, SOURCE, TARGET)),
        ("out", lambda: gl.relayout(place.array(FLOATS), SOURCE, TARGET, out=producer)),
    ):
        refused(call, f"{role} (tests.support.foreign.Producer) cannot be used without a copy: ")
        refused(call, text)
    assert all_deleted(producer)


@pytest.mark.usefixtures("quick_collections")
def test_other_objects_and_used_capsules_are_refused(place):
    used = UsedProducer(place.array(FLOATS))
    refused(
        lambda: gl.relayout(used, SOURCE, TARGET),
        "its __dlpack__ returned a PyCapsule, not an unused DLPack capsule",
    )
    assert all_deleted(used)
    none = Producer(place.array(FLOATS))
    none.capsule = lambda: None
    refused(
        lambda: gl.relayout(none, SOURCE, TARGET), "its __dlpack__ returned a NoneType, not an unused DLPack capsule"
    )


def test_a_type_error_of_a_producer_that_is_not_about_versions_is_reported(place):
    class Failing(Producer):
        def __dlpack__(self, **options):
            raise TypeError("no way")

    refused(lambda: gl.relayout(Failing(place.array(FLOATS)), SOURCE, TARGET), "cannot be used without a copy: no way")


@pytest.mark.parametrize("error", [KeyError, RuntimeError, ZeroDivisionError])
@pytest.mark.parametrize("name", ["__dlpack__", "__dlpack_device__", "__cuda_array_interface__"])
def test_attributes_that_raise_when_they_are_read(cp, name, error):
    class Failing(Interface if name.startswith("__cuda") else Producer):
        def __getattribute__(self, asked):
            if asked == name and "array" in object.__getattribute__(self, "__dict__"):
                raise error("because of that")
            return super().__getattribute__(asked)

    refused(lambda: gl.relayout(Failing(cp.asarray(FLOATS)), SOURCE, TARGET), "because of that")


def test_half_of_dlpack_beside_an_interface_is_ignored(cp):
    class Half(Interface):
        __dlpack__ = None

    assert gl.relayout(Half(cp.asarray(FLOATS)), SOURCE, TARGET).get().tolist() == MOVED


@pytest.mark.parametrize("device", [None, (), (2,), ("cuda", 0), (2, None), (2, 0, 0)])
def test_devices_must_be_pairs_of_numbers(place, device):
    producer = Producer(place.array(FLOATS))
    producer.device = device
    refused(lambda: gl.relayout(producer, SOURCE, TARGET), "buffer (Producer) cannot say where it lives: ")


def test_classes_are_not_arrays():
    for given in (np.ndarray, np.float32, Producer):
        refused(
            lambda: gl.relayout(given, SOURCE, TARGET),
            f"buffer is the class {given.__name__}: it must be an array",
            TypeError,
        )


# ---- devices -------------------------------------------------------------------------------------------------------


def second_device(cp):
    count = cp.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(needs_devices(2, count))
    return cp.cuda.Device(1)


@pytest.mark.parametrize("offer", [Producer, OldProducer, Interface])
def test_memory_of_a_device_that_is_not_current_is_shared(cp, offer):
    with second_device(cp):
        buffer, out = cp.asarray(FLOATS), cp.zeros(6, np.float32)
        cp.cuda.get_current_stream().synchronize()
    opened = arrays.open_array(offer(out), "out", writing=True)[1]
    assert address_of(opened) == address_of(out) and opened.device.id == 1
    gl.relayout(offer(buffer), SOURCE, TARGET, out=offer(out))
    result = gl.relayout(offer(buffer), SOURCE, TARGET)
    assert result.device.id == 1 and cp.cuda.runtime.getDevice() == 0
    with cp.cuda.Device(1):
        assert cp.asnumpy(out).tolist() == cp.asnumpy(result).tolist() == MOVED


def test_memory_on_another_device_than_it_is_said_to_be(cp):
    with second_device(cp):
        array = cp.asarray(FLOATS)
    refused(
        lambda: gl.relayout(Producer(array, device=(2, 0)), SOURCE, TARGET),
        f"it claims to be on cuda:0, but its address {address_of(array):#x} is on cuda:1",
    )


def test_memory_that_all_devices_share_is_used_on_the_device_it_is_said_to_be_on(cupy, monkeypatch):
    array = cupy.asarray(FLOATS)
    for kind in (1, 3):  # pinned and managed memory, which only a real device has
        shared = types.SimpleNamespace(type=kind, device=0, devicePointer=address_of(array))
        monkeypatch.setattr(cupy.cuda.runtime, "pointerGetAttributes", lambda address: shared)
        assert arrays.open_array(Producer(array, device=(13, 1)), "buffer")[1].device.id == 1
        assert arrays.open_array(Interface(array), "buffer")[1].device.id == 0


@pytest.mark.parametrize("number", [-1, 99, 2**40])
def test_devices_that_are_not_there(cp, number):
    producer = Producer(cp.asarray(FLOATS))
    producer.device = (2, number)
    refused(
        lambda: gl.relayout(producer, SOURCE, TARGET),
        "buffer (tests.support.foreign.Producer) cannot be used without a copy: ",
    )
    assert producer.made == 0 and cp.cuda.runtime.getDevice() == 0


def test_host_memory_said_to_be_cudas(cp):
    for given in (Producer(FLOATS, device=(2, 0)), Producer(FLOATS, device=(13, 0)), Interface(FLOATS)):
        refused(lambda: gl.relayout(given, SOURCE, TARGET), f"its address {address_of(FLOATS):#x} is not CUDA memory")
        refused(lambda: gl.relayout(cp.asarray(FLOATS), SOURCE, TARGET, out=given), " is not CUDA memory")


def test_an_object_with_both_protocols_is_taken_by_dlpack(cp):
    class Both(Producer):
        __cuda_array_interface__ = None

    both = Both(cp.asarray(FLOATS))
    assert gl.relayout(both, SOURCE, TARGET).get().tolist() == MOVED and both.made == 1


def test_a_producer_gets_the_current_stream(cp):
    producer = Producer(cp.asarray(FLOATS))
    with cp.cuda.Stream(non_blocking=True) as stream:
        gl.relayout(producer, SOURCE, TARGET)
        assert producer.asked["stream"] == stream.ptr
        stream.synchronize()


# ---- __cuda_array_interface__ --------------------------------------------------------------------------------------

GARBAGE = [
    ({"shape": None}, "shape is None in its __cuda_array_interface__: it must be a tuple of integers"),
    ({"shape": "6"}, "shape is '6' in"),
    ({"shape": (6.0,)}, "shape is (6.0,) in"),
    ({"shape": 6}, "shape is 6 in"),
    ({"shape": {6}}, "shape is {6} in"),
    ({"shape": (-6,)}, "its shape is (-6,): a size is negative"),
    ({"strides": (4, 4)}, "its strides (4, 4) and its shape (6,) differ in length"),
    ({"strides": ("4",)}, "strides is ('4',) in"),
    ({"strides": ()}, "its strides () and its shape"),
    ({"strides": 4}, "strides is 4 in"),
    ({"typestr": "garbage"}, "its typestr 'garbage' is not one of booleans"),
    ({"typestr": None}, "its typestr None is not"),
    *(({"typestr": text}, "with a byte order, such as '<f4'") for text in ("i8", "u4", "float", "float32", "")),
    ({"typestr": 4}, "its typestr 4 is not"),
    ({"typestr": "|O"}, "its typestr '|O' is not"),
    ({"typestr": "<V4"}, "its typestr '<V4' is not"),
    ({"typestr": "<M8[s]"}, "is not one of"),
    ({"typestr": "f4,f4"}, "is not one of"),
    ({"typestr": "<U1"}, "is not one of"),
    ({"typestr": ">f4"}, "its typestr '>f4' is big-endian"),
    ({"data": 0}, "data is 0 in its __cuda_array_interface__: it must be"),
    ({"data": None}, "data is None in"),
    ({"data": (1,)}, "data is (1,) in"),
    ({"data": ("x", False)}, "data is ('x',) in"),
    ({"data": (0, False)}, "its address is 0x0"),
    ({"data": (-8, False)}, "its address is -0x8"),
    ({"data": (None, False)}, "data is (None,) in"),
    ({"data": (2**70, False)}, "its address is 0x400000000000000000"),
    ({"mask": 1}, "it has a mask, which would be lost"),
    ({"stream": 0}, "stream is 0 in its __cuda_array_interface__: 1 and 2 are the default streams"),
    ({"stream": -1}, "stream is -1 in"),
    ({"stream": "x"}, "stream is ('x',) in"),
    ({"stream": 1.5}, "stream is (1.5,) in"),
]


@pytest.mark.parametrize("garbage, text", GARBAGE)
def test_interfaces_that_no_array_can_have(cp, garbage, text):
    array = cp.asarray(FLOATS)
    given = Interface(array, **garbage)
    for role, call in (
        ("buffer", lambda: gl.relayout(given, SOURCE, TARGET)),
        ("out", lambda: gl.relayout(cp.asarray(FLOATS), SOURCE, TARGET, out=given)),
    ):
        refused(call, f"{role} (tests.support.foreign.Interface) cannot be used without a copy: ")
        refused(call, text)
    assert cp.asnumpy(array).tolist() == FLOATS.tolist()


def test_interfaces_that_lack_something(cp):
    array = cp.asarray(FLOATS)
    for field in ("shape", "typestr", "data"):
        refused(
            lambda: gl.relayout(Interface(array, without=[field]), SOURCE, TARGET),
            f"its __cuda_array_interface__ lacks {field!r}",
        )
    assert gl.relayout(Interface(array, without=["strides", "version"]), SOURCE, TARGET).get().tolist() == MOVED
    assert (
        gl.relayout(Interface(array, shape=[6], strides=[np.int64(4)], data=[address_of(array), 0]), SOURCE, TARGET)
        .get()
        .tolist()
        == MOVED
    )
    given = Interface(array)
    for interface in (None, [], "x"):
        given.__cuda_array_interface__ = interface
        refused(lambda: gl.relayout(given, SOURCE, TARGET), "its __cuda_array_interface__ is a")


def test_the_stream_of_an_interface_comes_first(cp, monkeypatch):
    array, ordered = cp.asarray(FLOATS), []
    record = cp.cuda.Stream.record
    monkeypatch.setattr(cp.cuda.Stream, "record", lambda self: (ordered.append(self.ptr), record(self))[1])
    own = cp.cuda.Stream(non_blocking=True)
    for stream in (None, 1, 2, own.ptr):
        assert gl.relayout(Interface(array, stream=stream), SOURCE, TARGET).get().tolist() == MOVED
    assert ordered == [1, 2, own.ptr]
    monkeypatch.setenv("CUPY_CUDA_ARRAY_INTERFACE_SYNC", "0")
    gl.relayout(Interface(array, stream=1), SOURCE, TARGET)
    assert len(ordered) == 3


@on_gpu_alone
def test_the_host_does_not_wait_for_the_stream_of_an_interface(cp):
    own, work = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    for _ in range(2):  # the first round compiles
        with own:
            keep_busy(cp, 100_000_000)
            given = Interface(cp.asarray(FLOATS) * 2, stream=own.ptr)
        with work:
            result = gl.relayout(given, SOURCE, TARGET)
            running = not own.done
            assert result.get().tolist() == [2 * value for value in MOVED]
    assert running


# ---- other objects of CuPy -----------------------------------------------------------------------------------------


def test_the_error_for_a_memory_pointer_says_how_to_make_an_array(cp):
    array = cp.asarray(FLOATS)
    pointer = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(address_of(array), 24, array, 0), 0)
    advice = (
        "is a MemoryPointer: it must be a NumPy or CuPy array, or offer DLPack or __cuda_array_interface__; "
        "cupy.ndarray(shape, dtype, pointer) makes one of a MemoryPointer"
    )
    for role, call in (
        ("buffer", lambda: gl.relayout(pointer, SOURCE, TARGET)),
        ("array", lambda: gl.shape_of(pointer)),
        ("out", lambda: gl.relayout(array, SOURCE, TARGET, out=pointer)),
    ):
        assert refused(call, advice, TypeError) == f"{role} {advice}"
    assert gl.relayout(cp.ndarray((6,), np.float32, pointer), SOURCE, TARGET).get().tolist() == MOVED
    for given in (cp.cuda.Stream(), cp.cuda.Device(0), cp.cuda):
        refused(lambda: gl.relayout(given, SOURCE, TARGET), "it must be a NumPy or CuPy array", TypeError)


def test_the_error_for_a_sparse_matrix_says_how_to_make_an_array():
    matrix = type("csr_matrix", (), {"__module__": "cupyx.scipy.sparse._csr"})()
    refused(lambda: gl.relayout(matrix, SOURCE, TARGET), "; .toarray() makes one of a sparse matrix", TypeError)


def test_subclasses_of_cupys_arrays_are_cupys(cp):
    array = cp.asarray(FLOATS)
    derived = array.view(type=type("Mine", (type(array),), {}))
    assert arrays.open_array(derived, "out", writing=True)[1] is derived
    assert gl.relayout(derived, SOURCE, TARGET).get().tolist() == MOVED


@pytest.mark.parametrize("typestr", ["i8", "u4", "f", "float", "float32", "double", "", "<", "u8,u8", "O", "<V4"])
def test_a_typestr_without_a_byte_order_is_refused(typestr):
    """CUDA's interface counts bytes, XLA's names bits: "u8" alone could be either."""
    given = Interface(FLOATS, typestr=typestr)
    with pytest.raises(TypeError, match=f"^its typestr '{typestr}' is not one of .* with a byte order, such as '<f4'$"):
        cuda_interface_memory(given)


@pytest.mark.parametrize("typestr", ["<f4", "|u1", "|b1", "=i8", "<c16"])
def test_a_typestr_with_a_byte_order_is_read(typestr):
    assert cuda_interface_memory(Interface(FLOATS, typestr=typestr)).dtype == np.dtype(typestr)
