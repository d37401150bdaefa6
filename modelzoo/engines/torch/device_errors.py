"""Errors of an accelerator, which torch raises with texts of several lines, as one line each."""

from __future__ import annotations

import re

from modelzoo.errors import EnvironmentProblem

_MEMORY = re.compile(r"out of memory|can't allocate memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
_LOST = re.compile(
    r"(CUDA|NPU|XPU|ACL|HIP|SYCL) (driver )?error|device-side assert|AcceleratorError|UR_RESULT_ERROR|device lost"
    r"|fallen off the bus|uncorrectable|CUDNN_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)|CUBLAS_STATUS_EXECUTION_FAILED",
    re.IGNORECASE,
)
_CAPTURE = re.compile(r"captur", re.IGNORECASE)
_SIZE = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")


def device_problem(error: BaseException, device: str) -> EnvironmentProblem | None:
    """Return what a failed allocation or a failed device means for the user; ``None`` for any other error.

    Args:
        error: what a call raised.
        device: ``cpu``, ``cuda:1`` ….
    """
    text = str(error)
    if _MEMORY.search(text):
        size = _SIZE.search(text)
        wanted = f" ({size[1]} more were needed)" if size else ""
        return EnvironmentProblem(f"out of memory on {device}{wanted}; use a smaller --batch, or free the device")
    # A graph that cannot be captured raises such errors too, and says nothing about the device.
    if device != "cpu" and _LOST.search(text) and not _CAPTURE.search(text):
        reason = first_line(text)
        return EnvironmentProblem(f"{device} failed while the model ran: {reason}; check the driver's log (dmesg)")
    return None


def first_line(text: str) -> str:
    """The first line of ``text`` that is not empty: what a driver says, before torch's advice."""
    return next((line.strip().rstrip(".") for line in text.splitlines() if line.strip()), "no reason given")
