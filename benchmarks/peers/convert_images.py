"""CV-CUDA and DALI as peers of conversions: pixels H W C to planes C H W of f32, scaled or normalised.

Both run on streams of their own, so they are timed by wall clock with one wait.  Both compute in an order of their own.
Neither was tried on a device yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases.convert import NORMALISE, SCALE, ConvertCase
from benchmarks.peers.contender import Contender, in_turn
from benchmarks.peers.convert import PIXELS, parameters

ROUNDING = "subtracts and multiplies in an order of its own"


def mean_and_deviation(case: ConvertCase) -> tuple[np.ndarray, np.ndarray] | None:
    """For each channel what is subtracted from a pixel, and what divides it then; None for other work."""
    given = {name: values.reshape(-1) for name, values in parameters(case).items()}
    if case.form == NORMALISE:
        return PIXELS * given["mean"], PIXELS * given["std"]
    if case.form == SCALE:
        return -given["shift"] / given["scale"], 1 / given["scale"]
    return None


class CvCuda:
    """`convertto`, `normalize` and `reformat`, into new memory."""

    def __init__(self, cvcuda: Any, cupy: Any):
        self.cvcuda, self.cupy = cvcuda, cupy

    def __call__(self, case: ConvertCase, pairs: list[tuple]) -> list[Contender]:
        found, cvcuda, cupy = mean_and_deviation(case), self.cvcuda, self.cupy
        if found is None:
            return []
        base, scale = (
            cvcuda.as_tensor(cupy.asarray(values.astype(np.float32).reshape(1, 1, 1, -1)), "NHWC")
            for values in (found[0], 1 / found[1])
        )
        items = [(cvcuda.as_tensor(given, "NHWC"),) for given, _ in pairs]

        def work(images: Any) -> Any:
            numbers = cvcuda.convertto(images, np.float32)
            return cvcuda.reformat(cvcuda.normalize(numbers, base=base, scale=scale), "NCHW")

        call = in_turn(items, lambda images: cupy.asarray(work(images).cuda()))
        return [Contender("cvcuda convertto, normalize, reformat", "fresh", call, _wait(cupy), rounding=ROUNDING)]


class Dali:
    """`crop_mirror_normalize` in a pipeline, whose outputs are its own."""

    def __init__(self, dali: Any, cupy: Any):
        self.dali, self.cupy = dali, cupy

    def __call__(self, case: ConvertCase, pairs: list[tuple]) -> list[Contender]:
        found = mean_and_deviation(case)
        if found is None:
            return []
        pipelines = [(self._pipeline(case, given, *found),) for given, _ in pairs]
        call = in_turn(pipelines, lambda pipeline: self.cupy.asarray(pipeline.run()[0].as_tensor()))
        return [Contender("dali crop_mirror_normalize", "fresh", call, _wait(self.cupy), rounding=ROUNDING)]

    def _pipeline(self, case: ConvertCase, images: Any, mean: np.ndarray, deviation: np.ndarray) -> Any:
        dali = self.dali
        pipeline = dali.Pipeline(batch_size=len(images), num_threads=1, device_id=images.device.id)
        with pipeline:
            given = dali.fn.external_source(lambda: images, device="gpu", layout="HWC", batch=True, no_copy=True)
            pipeline.set_outputs(
                dali.fn.crop_mirror_normalize(
                    given,
                    dtype=dali.types.FLOAT,
                    output_layout="CHW",
                    mean=[float(value) for value in mean],
                    std=[float(value) for value in deviation],
                )
            )
        pipeline.build()
        return pipeline


def _wait(cupy: Any) -> Callable[[Any], None]:
    return lambda output: cupy.cuda.runtime.deviceSynchronize()
