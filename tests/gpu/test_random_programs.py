"""Random programs: arrays at odd addresses, on all devices and on streams of every kind, moved, captured, passed to
other threads and dropped.

Every array has a copy in NumPy's memory.  The programs obey CuPy's rule for memory that two streams share: the stream
that it came from waits for the other.  Everything else is up to the library.
"""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpulayout as gl
from tests.support.device_arrays import device_buffer, host_buffer, on_gpu_alone, same_bytes

PLANS = [
    gl.plan(*pair)
    for pair in [
        ("f32[41,30]", "{0,1}"),
        ("f32[41,30]", "{0,1:PD(44,31)PV(lowest)}"),
        ("u8[40,31,3]", "{1,0,2}"),
        ("u8[3,40,31]", "{0,2,1}"),
        ("f64[7,5,6,3]", "{1,3,2,0}"),
        ("f16[64,96]", "{0,1}"),
        ("c128[33,20]", "{0,1}"),
        ("f32[30,43]{1,0:T(7,8)}", "{0,1:PV(3)L(32)}"),
        ("s4[37,51]{1,0:E(4)}", "{0,1:PD(39,51)PV(lowest)E(4)}"),
        ("u1[96,64]{0,1:E(1)}", "{1,0:E(1)}"),
        ("u8[60,70]{1,0:T(7,11)}", "{1,0:PV(3)T(8,13)}"),
        ("f32[2000]", "{0:PD(2010)PV(7)}"),
    ]
]


class Program:
    """Arrays and streams of every device, and the expected bytes of each array."""

    def __init__(self, cp, seed):
        self.cp, self.random, self.threads = cp, random.Random(seed), ThreadPoolExecutor(1)
        self.streams, self.items = [], []
        for device in range(min(cp.cuda.runtime.getDeviceCount(), 2)):
            with cp.cuda.Device(device):
                self.streams += [
                    (device, stream)
                    for stream in (
                        cp.cuda.Stream.null,
                        cp.cuda.Stream(),
                        cp.cuda.Stream(non_blocking=True),
                        cp.cuda.Stream(non_blocking=True),
                    )
                ]

    def on(self, place, call, *given):
        """The result of a call on a device's stream, in this thread or another."""

        def work():
            with self.cp.cuda.Device(place[0]), place[1]:
                return call(*given)

        return work() if self.random.random() < 0.7 else self.threads.submit(work).result()

    def wait(self, place, other):
        """Let one stream wait for the work that is now in the other."""
        event = self.on(other, other[1].record)
        self.on(place, place[1].wait_event, event)

    def make(self):
        place, plan = self.random.choice(self.streams), self.random.choice(PLANS)
        values = host_buffer(plan.source, self.random.randrange(1000))
        self.items.append(
            [place, plan.source, self.on(place, device_buffer, self.cp, values, self.random.randrange(20)), values]
        )

    def move(self):
        """Relayout an array on a stream of its device: into new memory, into `out`, or repeatedly by a graph."""
        place, shape, array, values = self.random.choice(self.items)
        plan = self.random.choice([plan for plan in PLANS if shape in (plan.source, plan.target)])
        plan = plan if plan.source == shape else gl.plan(shape, plan.source)
        other = self.random.choice([stream for stream in self.streams if stream[0] == place[0]])
        self.wait(other, place)
        result = self.on(other, self.random.choice([self.fresh, self.into_out, self.by_graph]), plan, array, other)
        self.wait(place, other)
        self.items.append([other, plan.target, result, plan(values)])

    def call(self, plan, buffer, out=None):
        """The library's own call, with any device current."""
        with self.cp.cuda.Device(self.random.choice(self.streams)[0]):
            return plan(buffer, out=out)

    def fresh(self, plan, array, place):
        return self.call(plan, array)

    def into_out(self, plan, array, place):
        out = device_buffer(self.cp, host_buffer(plan.target, 1), self.random.randrange(20))
        if place[1] is self.cp.cuda.Stream.null and self.random.random() < 0.5:
            with ThreadPoolExecutor(1) as thread:  # a thread that has not used any device
                assert thread.submit(plan, array, out=out).result() is out
        else:
            assert self.call(plan, array, out) is out
        return out

    def by_graph(self, plan, array, place):
        out = self.into_out(plan, array, place)  # compiles and loads the kernels
        stream = self.cp.cuda.Stream(non_blocking=True)
        stream.begin_capture()
        with stream:
            self.call(plan, array, out)
        graph = stream.end_capture()
        out.view(np.uint8).fill(0)
        for _ in range(2):
            graph.launch(place[1])
        place[1].synchronize()  # the graph is dropped when this returns
        return out

    def drop(self):
        if len(self.items) > 4:
            self.items.pop(self.random.randrange(len(self.items)))

    def check(self):
        place, _, array, values = self.random.choice(self.items)
        assert self.on(place, same_bytes, self.cp, array, values)

    def run(self, steps):
        self.make()
        for _ in range(steps):
            self.random.choices([self.make, self.move, self.drop, self.check], (2, 6, 3, 1))[0]()
        for place, _, array, values in self.items:
            assert self.on(place, same_bytes, self.cp, array, values)
        self.threads.shutdown()


@pytest.mark.one_in(2)
@on_gpu_alone
@pytest.mark.parametrize("seed", range(20))
def test_every_array_holds_what_numpy_says(cp, seed):
    Program(cp, seed).run(60)
