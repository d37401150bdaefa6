"""The conditions of one run, as texts."""

from __future__ import annotations

from typing import Any

import pytest
from example_machine import BUILD, LIBRARIES, machine_with
from exported_results import exported
from fake_runs import evidence, make, result_of

from modelzoo.comparison.conditions import IMPORTANCE
from modelzoo.frozen import replace
from modelzoo.records.accelerator import Accelerator, AcceleratorUse
from modelzoo.records.evidence import OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.libraries import Library
from modelzoo.records.machine import Threads
from modelzoo.records.run import RunReport
from modelzoo.setting import Setting


def facts(**changes: Any) -> dict[str, str | None]:
    """All facts of a run on the good machine with these changes of its report; of equal names, the last."""
    run = make([1.0], **{"machine": machine_with(), "libraries": LIBRARIES, **changes})
    assert run.report is not None
    return read(run.report)


def read(report: RunReport, commit: str | None = None) -> dict[str, str | None]:
    """All facts of a report."""
    result = replace(result_of(), commit=commit)
    groups = [group.read(report, result) for group in IMPORTANCE]
    return {name: value for group in groups if group is not None for name, value in group}


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"product": "Yitian 710"}, "CPU", "Neoverse-N2 (Yitian 710)"),
        ({"cores": 8, "logical": 16}, "cores", "8 (16 logical)"),
        ({"features": ()}, "vector extensions", "none that affects the kernels"),
        ({"sve_bits": 256}, "SVE", "256 bits"),
        ({"sve_bits": None, "features": ("sve",)}, "SVE", None),
        ({"sve_bits": None, "features": ("avx2",)}, "SVE", "none"),
        ({"hypervisor": "KVM"}, "vCPUs per physical core", None),
        ({"hypervisor": "KVM", "vcpus_per_core": 2}, "vCPUs per physical core", "2"),
        ({"max_mhz": 3500.0}, "highest frequency", "3.50 GHz"),
        ({"memory_limit": None}, "usable memory", None),
        ({"emulator": "qemu-user"}, "emulator", "qemu-user"),
        ({"instance_type": "c7g.2xlarge"}, "instance type", "c7g.2xlarge"),
        ({"image": "zoo:acl"}, "image", "zoo:acl"),
        ({"threads": Threads(2, 2, 2, 1.5, "0-1")}, "CPU quota", "1.5 CPUs"),
        ({"niceness": 5}, "niceness", "5"),
        ({"threads": Threads(2, 2, 2, None, "0-1")}, "CPUs allowed", "0-1"),
        ({"environment": {"LD_PRELOAD": "libtcmalloc.so"}}, "variable LD_PRELOAD", "libtcmalloc.so"),
    ],
)
def test_facts_of_the_machine(changes: dict[str, Any], name: str, text: str | None) -> None:
    """As text; what the system does not report is None."""
    assert facts(machine=machine_with(**changes))[name] == text


def test_the_engine_has_its_version_and_its_exporter() -> None:
    """The version of torch, which it was exported with, stands beside them."""
    found = facts(**exported())
    assert (found["engine"], found["torch"]) == ("onnxruntime 1.23.2", "2.10.0")
    assert found["exporter"] == "torch.onnx.export torch 2.10, opset 17"
    assert facts(versions={"torch": "2.10.0"})["engine"] == "torch"
    assert "exporter" not in facts()


def test_facts_of_the_libraries() -> None:
    """The build, and what is loaded; the size of a pool follows the threads and is left out."""
    openblas = Library("blas", "openblas", "0.3.29", "neoversen2", "pthreads", 8, "numpy", "libopenblas.so")
    build = replace(BUILD, settings={"USE_CUDA": "OFF", "TORCH_VERSION": "2.10.0"})
    found = facts(libraries=replace(LIBRARIES, build=build, loaded=(*LIBRARIES.loaded, openblas)))
    assert found["openblas of numpy"] == "0.3.29 neoversen2 pthreads"
    assert found["openmp of torch"] == "libgomp.so.1"
    assert found["Arm Compute Library"] == "used"
    assert (found["oneDNN"], found["compiler"], found["MKL"]) == ("3.7.1", "GCC 13.3", "none")
    assert found["torch's USE_CUDA"] == "OFF"
    assert "torch's TORCH_VERSION" not in found


def test_facts_of_the_accelerator() -> None:
    """Its product, capability, memory and software, and whether its clocks were locked; a run on a CPU has none."""
    gpu = Accelerator("cuda", 1, "NVIDIA H100", "9.0", "550.54", "CUDA 12.8", 80 << 30, "torch.cuda")
    found = facts(accelerator=AcceleratorUse(gpu, locked_mhz=1200))
    assert (found["accelerator"], found["compute capability"]) == ("NVIDIA H100", "9.0")
    assert (found["driver of the accelerator"], found["libraries of the accelerator"]) == ("550.54", "CUDA 12.8")
    assert (found["memory of the accelerator"], found["locked clock"]) == ("80 GiB", "1200 MHz")
    assert "accelerator" not in facts()


def test_facts_of_the_work() -> None:
    """Digests are shortened, and switches are divided into name and value."""
    found = facts(
        setting=Setting(precision="bf16", batch=8),
        inputs_digest="0123456789abcdef",
        switches=("torch.backends.mkldnn.enabled=False", "a switch"),
    )
    assert (found["batch"], found["bf16 method"], found["inputs"]) == ("8", "autocast", "0123456789ab")
    assert found["weights"] == "seed 0 (abc)"
    assert (found["torch.backends.mkldnn.enabled"], found["a switch"]) == ("False", "set")
    assert found["workload file"] is None


def test_facts_of_the_evidence() -> None:
    """Kernels by what they compute, with their precision; the instruction set that oneDNN chose."""
    use = OperatorUse("aten::mm", OperatorClass.MATMUL, (), "mkl sgemm", "fp32", ProofSource.BOTH, 1, 1.0, 1.0)
    found = facts(evidence=replace(evidence(ProofVerdict.FP32), operators=(use,), onednn_isa="AVX512"))
    assert found["kernels of matmul"] == "mkl sgemm (fp32)"
    assert found["oneDNN instruction set"] == "AVX512"


@pytest.mark.parametrize(
    ("commit", "text"), [(None, None), ("0123456789abcdef", "0123456789ab"), ("0123456789abcdef+", "0123456789ab+")]
)
def test_a_commit_with_changed_files_keeps_its_mark(commit: str | None, text: str | None) -> None:
    """Two such commits need not have run the same code."""
    report = make([1.0]).report
    assert report is not None
    assert read(report, commit)["commit of modelzoo"] == text


def test_nothing_of_the_moment_is_a_condition() -> None:
    """Neither the current clock, nor dates, nor directories."""
    machine = machine_with(mhz=1234.5, environment={"MODELZOO_CACHE": "/home/somebody/cache"})
    texts = " ".join(f"{name} {value}" for name, value in facts(machine=machine).items())
    assert "1.23" not in texts
    assert "/" not in texts.replace("CPUs/", "")
