"""What a job computes on, the GPU with torch if there is one, else the CPU with NumPy; and what memory it has.

The numbers agree to rounding, so no job depends on the choice: it comes from the environment
variable KOCT_DEVICE, which the workflow sets to `device` of config.yaml.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import threading
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from koct.errors import KoctError

CHOICES = ("auto", "cpu", "cuda")
ALLOW_CPU = "KOCT_ALLOW_CPU"
INSTEAD = (
    "install the build of torch that fits your GPUs, or compute on the CPU with --config device=cpu "
    f"({ALLOW_CPU}=1 asks for GPUs and computes on the CPU all the same)"
)


class Device:
    """A device, `cpu` or `cuda`; `label` is what results call it."""

    def __init__(self, name: str):
        self.name = name
        self.label = name
        if name == "cuda":
            import torch

            self.label = torch.cuda.get_device_name()

    def put(self, array: Any) -> Any:
        """A NumPy array on this device."""
        if self.name == "cpu":
            return array
        import torch

        return torch.as_tensor(array, device="cuda")


CPU = Device("cpu")


def choose() -> Device:
    """The device that KOCT_DEVICE asks for; says which it is, and why if it is not the GPU."""
    wanted = os.environ.get("KOCT_DEVICE", "auto")
    if wanted not in CHOICES:
        raise KoctError(f"device = {wanted!r} must be one of {', '.join(CHOICES)}")
    missing = None if wanted == "cpu" else _missing()
    if missing and wanted == "cuda":
        raise KoctError(f"device = 'cuda' but {missing}: fix that, or set device to cpu or auto")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")  # which a cluster sets to what the job was given
    held = "SLURM_JOB_ID" in os.environ and visible not in ("", "-1", "NoDevFiles")
    if missing and held and not os.environ.get(ALLOW_CPU):
        raise KoctError(f"this job holds a GPU that it cannot use: {missing}; {INSTEAD}")
    device = CPU if wanted == "cpu" or missing else Device("cuda")
    about = "; ".join(filter(None, [missing, visible and f"CUDA_VISIBLE_DEVICES={visible}"]))
    if threading.current_thread() is threading.main_thread():  # others draw pairs ahead, again and again
        print(f"device: {device.label}" + (f" ({about})" if about else ""), flush=True)
    return device


def check_torch(modules: str = "") -> None:
    """Refuse to ask a cluster for GPUs that no job could use; `modules` may bring a torch that is not seen here."""
    if modules or os.environ.get(ALLOW_CPU):
        return
    spec = importlib.util.find_spec("torch")
    missing = "torch is not installed" if spec is None else None
    if spec and spec.origin:
        with contextlib.suppress(OSError), open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            if re.search(r"^cuda\b.*= None$", file.read(), re.M):
                missing = "the torch that is installed was built without CUDA"
    if missing:
        raise KoctError(f"this study asks the cluster for GPUs, and {missing}; {INSTEAD}")


def _missing() -> str | None:
    """What keeps us from using a GPU; found out without importing torch where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver sees no GPU"
    for module in ("torch", "triton"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    import torch

    return None if torch.cuda.is_available() else "this build of torch cannot use the GPU"


@contextlib.contextmanager
def failures_explained() -> Iterator[None]:
    """Turn what a GPU or a small memory does to a job into one sentence and its fix."""
    try:
        yield
    except MemoryError as error:
        what = ": ".join(filter(None, ["out of memory", str(error)]))
        raise KoctError(f"{what}; run fewer jobs at once (--cores), or use a larger machine") from None
    except RuntimeError as error:  # torch's own errors are RuntimeErrors
        kind, first = type(error).__name__, str(error).strip().partition("\n")[0]
        if kind == "OutOfMemoryError":
            raise KoctError(
                f"out of GPU memory: {first} Give --resources a smaller gpu_mb, so that fewer jobs share the GPU, "
                "or set device to cpu"
            ) from None
        if kind == "AcceleratorError" or "CUDA" in first:
            raise KoctError(f"the GPU failed: {first}; run snakemake again, or set device to cpu") from None
        raise


# Bytes of memory that a process may take, of the machine and of the control groups that it is in


def total_memory(root: str = "/") -> int | None:
    """What this machine has, or the control group of this process; None if nobody says."""
    found = list(_group_limits(root))
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in found if size > 0), default=None)


def free_memory(root: str = "/") -> int:
    """What is free on this machine, or all that the control group of this process may take, if that is less."""
    lines = (line.split() for line in _read(root, "proc/meminfo").splitlines())
    free = next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
    return min([free, *_group_limits(root)])


def _group_limits(root: str) -> Iterator[int]:
    """Of the groups, one in the other, of this process: version 2 and version 1."""
    for line in _read(root, "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        for place in (PurePosixPath(group), *PurePosixPath(group).parents):
            text = _read(root, "sys/fs/cgroup", folder, str(place).lstrip("/"), name).strip()
            if text.isdigit():
                yield int(text)


def _read(*parts: str) -> str:
    with contextlib.suppress(OSError), open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()
    return ""
