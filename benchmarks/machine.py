"""What figures depend on: the commit, the processor, the device, all versions.  No names of hosts, users or folders."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any

from gpulayout.choices.backends import gpu_problem
from gpulayout.cpu.threads import thread_count
from gpulayout.version import __version__

PACKAGES = ("numpy", "ml_dtypes")
PEER_PACKAGES = (
    "cupy-cuda13x",
    "cupy-cuda12x",
    "torch",
    "jax",
    "jaxlib",
    "triton",
    "opencv-python-headless",
    "nvidia-cublas",
    "nvidia-cuda-nvrtc",
)


def machine(backend: str, peers: bool) -> dict[str, Any]:
    """Commit, processor, device and versions as plain data; with `peers`, also the versions of the peers."""
    found = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "gpulayout": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": thread_count(),
        "load": round(os.getloadavg()[0], 2),
        "packages": _versions(*PACKAGES, *(PEER_PACKAGES if peers else ())),
    }
    return found | (_gpu() if backend == "cupy" else {})


def machine_here() -> dict[str, Any]:
    """The same with the peers, and with the device where a GPU works."""
    return machine("numpy" if gpu_problem() else "cupy", peers=True)


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def _cpu_model() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _commit() -> str:
    """The commit, marked if the tree had changes.  A copy without history takes it from GPULAYOUT_COMMIT, or says
    "unknown".
    """
    given = os.environ.get("GPULAYOUT_COMMIT")
    if given:
        return given
    if _git("rev-parse", "--show-cdup") != "../":  # a copy inside another repository has that one's history
        return "unknown"
    return _git("describe", "--always", "--dirty", "--abbrev=12") or "unknown"


def _git(*arguments: str) -> str:
    """What git says here, "" if it cannot say anything."""
    here = pathlib.Path(__file__).resolve().parent
    try:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _gpu() -> dict[str, Any]:
    import cupy

    runtime, device = cupy.cuda.runtime, cupy.cuda.Device()
    properties = runtime.getDeviceProperties(device.id)
    found = {
        "gpu": properties["name"].decode(),
        "gpu_memory": properties["totalGlobalMem"],
        "l2_bytes": properties["l2CacheSize"],
        "compute_capability": device.compute_capability,
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }
    fields = "driver_version,clocks.max.sm,clocks.max.mem,clocks.sm,clocks.mem,power.limit,ecc.mode.current"
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", f"--id={device.id}"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        found["nvidia_smi"] = dict(zip(fields.split(","), done.stdout.strip().split(", ")))
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no nvidia-smi: {error}", file=sys.stderr)
    return found
