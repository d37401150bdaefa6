"""What an accelerator raises becomes one line. The texts are those of torch, NVIDIA's driver and torch_npu."""

from __future__ import annotations

import pytest

from modelzoo.engines.torch.devices import device_problem, first_line

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 14.32 GiB is "
    "free. Including non-PyTorch memory, this process has 1.45 GiB memory in use.\nSee documentation for Memory "
    "Management"
)
LOST = (
    "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at some other API call"
    "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
    "assertions.\n"
)


@pytest.mark.parametrize(
    ("text", "device", "expected"),
    [
        (OUT_OF_MEMORY, "cuda", "out of memory on cuda (20.00 GiB more were needed); use a smaller --batch"),
        (
            "DefaultCPUAllocator: can't allocate memory",
            "cpu",
            "out of memory on cpu;",
        ),
        (
            "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 29.50 GiB total)",
            "npu:0",
            "out of memory on npu:0 (2.00",
        ),
        (
            LOST,
            "cuda:1",
            "cuda:1 failed while the model ran: CUDA error: unspecified launch failure; check",
        ),
        ("CUDA error: uncorrectable ECC error encountered", "cuda", "cuda failed while the model ran: CUDA error: unc"),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda", "cuda failed while the model ran: cuDNN error"),
        ("NPU error, error code is 507018", "npu", "npu failed while the model ran: NPU error, error code is 507018"),
    ],
)
def test_each_failure_of_a_device_is_one_line(text: str, device: str, expected: str) -> None:
    """It says which device, what the driver said first, and what to do."""
    problem = device_problem(RuntimeError(text), device)
    assert problem is not None
    assert str(problem).startswith(expected)
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "cuda"),
        ("CUDA error: operation not permitted when stream is capturing", "cuda"),
        (LOST, "cpu"),
    ],
)
def test_other_errors_are_not_the_devices(text: str, device: str) -> None:
    """A wrong shape, a model that cannot be captured, and whatever happens on a CPU."""
    assert device_problem(RuntimeError(text), device) is None


def test_the_first_line_is_what_the_driver_said() -> None:
    """Advice for torch's developers follows it."""
    assert first_line(LOST) == "CUDA error: unspecified launch failure"
    assert first_line("\n") == "no reason given"
