"""Devices are found, checked and selected, under every name that torch gives them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from simulated_device import SimulatedDevice, cuda_module, npu_module

from modelzoo.engines.protocol import Unavailable
from modelzoo.engines.torch import devices
from modelzoo.engines.torch.devices import device_problem
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence import audit
from modelzoo.evidence.precision import DeviceKernel
from modelzoo.records.evidence import KernelDigest


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Let ``import torch`` find these modules of devices, and ``import torch_npu`` nothing of importance."""
    version = SimpleNamespace(cuda="12.8", xpu=None)
    cudnn = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002))
    torch = SimpleNamespace(__version__="9.9", **modules, version=version, backends=cudnn)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    monkeypatch.setattr(devices, "DRIVER_FILE", Path("nowhere"))


def test_facts_of_a_selected_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From its module, and from the driver where it tells them; checking selects nothing."""
    simulated = SimulatedDevice()
    cuda = cuda_module(simulated)
    install(monkeypatch, cuda=cuda)
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:"
    (tmp_path / "version").write_text(line, encoding="utf-8")
    monkeypatch.setattr(devices, "DRIVER_FILE", tmp_path / "version")
    devices.check_device("cuda:1")
    assert cuda.chosen == []
    device = devices.select_device("cuda:1")
    assert device is not None and cuda.chosen == [1]
    found = device.describe()
    assert (found.kind, found.index, found.name, found.capability) == ("cuda", 1, "Simulated GPU 1", "9.0")
    assert (found.driver, found.runtime) == ("550.54.15", "CUDA 12.8, cuDNN 9.10.2")
    assert (found.lacks, found.memory) == ((), simulated.memory)
    assert device.identifier() == "GPU-01234567-89ab-cdef-0123-456789abcdef"
    simulated.allocate(2**20)
    simulated.allocated = 2**10
    assert device.peak_memory() == 2**20
    device.reset_peak_memory()
    assert device.peak_memory() == 2**10


def test_what_a_device_lacks_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events without timing, and no memory figures: tried out, and named in the record."""
    simulated = SimulatedDevice()
    module = npu_module(simulated)
    del module.max_memory_allocated

    def elapsed_time(other: object) -> float:
        raise NotImplementedError("elapsed_time is not supported")

    module.Event = lambda enable_timing: SimpleNamespace(record=lambda: None, elapsed_time=elapsed_time)
    install(monkeypatch, npu=module)
    device = devices.select_device("npu")
    assert device is not None and not device.timed_events
    found = device.describe()
    assert found.lacks == ("timed events", "memory figures")
    assert (found.capability, device.peak_memory(), device.identifier()) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:2", "--device cuda:2: this machine has 2 cuda devices; the first is cuda:0"),
        ("npu", "--device npu: no npu device is available here; check the driver with npu-smi info, or use --device"),
        ("xpu", "--device xpu: torch 9.9 does not support it"),
        ("cuda:", "the index must be a number, as in cuda:0"),
        ("tpu", "there is no such kind of device; use cpu, cuda, npu, xpu"),
        ("cpu:1", "the CPU has no index; use --device cpu"),
    ],
)
def test_a_device_that_does_not_exist_is_an_error(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine or on any; each reason has a message of its own."""
    device = SimulatedDevice()
    install(monkeypatch, cuda=cuda_module(device), npu=npu_module(device, available=False))
    with pytest.raises((EnvironmentProblem, UsageError), match=message):
        devices.check_device(name)


def test_the_reason_why_torch_finds_no_device_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so by a warning; and no driver helps if it was built for the CPU only."""
    cuda, said = cuda_module(SimulatedDevice(), available=False), "CUDA initialization: Found no NVIDIA driver."
    install(monkeypatch, cuda=cuda)
    sys.modules["torch"].version.cuda = None
    with pytest.raises(EnvironmentProblem, match="torch 9.9 was built without cuda"):
        devices.check_device("cuda")
    cuda.is_available = lambda: warnings.warn(f"{said} (Triggered internally at CUDAFunctions.cpp:119.)", stacklevel=1)
    with pytest.raises(EnvironmentProblem, match=r"here \(CUDA initialization: Found no NVIDIA driver\); check the"):
        devices.check_device("cuda")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (None, "torch_npu is not installed: pip install torch_npu, of the version of torch"),
        (ImportError("libhccl.so: cannot open"), "libhccl.so: cannot open.: install the device's driver"),
    ],
)
def test_torch_npu_that_cannot_be_used(error: Exception | None, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, or without its driver, the line says what to install."""
    install(monkeypatch)
    monkeypatch.delitem(sys.modules, "torch_npu")

    def import_module(name: str) -> None:
        raise error or ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(devices.importlib, "import_module", import_module)
    with pytest.raises(EnvironmentProblem, match=message):
        devices.check_device("npu")


@pytest.mark.parametrize("name", ["nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT", "Memcpy DtoD (Device -> Device)"])
def test_a_digest_needs_a_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that only copy prove nothing about a process."""
    monkeypatch.setattr(audit, "run_device_profiled", lambda *given: (DeviceKernel(name, 1.0),))
    found = devices.digest(lambda: None, SimulatedDevice())
    copies = Unavailable("no kernel that multiplies matrices ran on the device")
    assert found == copies if "Memcpy" in name else isinstance(found, KernelDigest)


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
        ("DefaultCPUAllocator: can't allocate memory", "cpu", "out of memory on cpu;"),
        (LOST, "cuda:1", "cuda:1 failed while the model ran: CUDA error: unspecified launch failure; check"),
        ("CUDA error: uncorrectable ECC error encountered", "cuda", "cuda failed while the model ran: CUDA error: unc"),
        ("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda", "cuda failed while the model ran: cuDNN error"),
        ("NPU error, error code is 507018", "npu", "npu failed while the model ran: NPU error, error code is 507018"),
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "cuda", None),
        ("CUDA error: operation not permitted when stream is capturing", "cuda", None),
        (LOST, "cpu", None),
    ],
)
def test_each_failure_of_a_device_is_one_line(text: str, device: str, expected: str | None) -> None:
    """It says which device, what the driver said first, and what to do; other errors are not the device's."""
    problem = device_problem(RuntimeError(text), device)
    assert str(problem).startswith(str(expected))
    assert "\n" not in str(problem)
