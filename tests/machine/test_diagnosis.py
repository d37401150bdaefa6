"""Every condition that distorts results is found, and only if it is there."""

from __future__ import annotations

from typing import Any

import pytest
from example_machine import CEILINGS, LIBRARIES, OPENBLAS, OPENMP, QUIET, SERVER, machine_with

from modelzoo.frozen import replace
from modelzoo.machine.diagnosis import diagnose, system_warnings, usage_warnings
from modelzoo.records.equipment import Library
from modelzoo.records.machine import CpuUsage, Machine, NumaNode, Threads
from modelzoo.records.profile import Ceilings, Gemm
from modelzoo.warning import WarningMessage

TWO_NODES = (NumaNode(0, "0-19", 20), NumaNode(1, "20-63", 44))


def warnings_of(
    machine: Machine = SERVER, usage: CpuUsage = QUIET, ceilings: Ceilings | None = CEILINGS, **given: Any
) -> list[WarningMessage]:
    """The warnings for the good machine, unless something else is given."""
    good = {"libraries": LIBRARIES, "faults_per_mib": 0.1, "torchvision_problem": None}
    return list(diagnose(machine, usage=usage, ceilings=ceilings, **{**good, **given}))


def codes(*given: Any, **named: Any) -> set[str]:
    """The codes of ``warnings_of``."""
    return {warning.code for warning in warnings_of(*given, **named)}


@pytest.mark.parametrize(
    ("code", "machine", "usage"),
    [
        (None, {}, {}),
        ("GOVERNOR", {"governor": "performance+powersave"}, {}),
        (None, {"governor": None}, {}),
        (None, {"huge_pages": "madvise"}, {}),
        (None, {"threads_per_core": 2}, {}),  # the mask leaves the siblings out already
        (None, {"threads": Threads(8, 8, 8, 8.0)}, {}),
        (None, {"numa_nodes": 2, "nodes": TWO_NODES[:1]}, {}),  # bound to one of them
        ("SMALL_MEMORY", {"memory_limit": 4 << 30}, {}),
        ("WAIT_POLICY", {"environment": {"OMP_WAIT_POLICY": "PASSIVE"}}, {}),
        ("FAST_MATH", {"environment": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}}, {}),
        *((None, {"environment": {"DNNL_DEFAULT_FPMATH_MODE": value}}, {}) for value in ("STRICT", "0", "")),
        ("THREADS_VARIABLE", {"environment": {"OMP_NUM_THREADS": "16,2"}}, {}),
        (None, {"environment": {"OMP_NUM_THREADS": "8"}}, {}),
        ("OTHER_LOAD", {}, {"other_cores": 0.2}),
        # Within the resolution of the clock, or a large percentage of nearly nothing, is no evidence.
        (None, {}, {"other_cores": 0.15, "resolution": 0.2}),
        (None, {}, {"other_cores": None, "steal_percent": None}),
        # A tenth of a core is less than what the services of a large server take.
        (None, {"threads": Threads(128, 128, 128, None)}, {"other_cores": 1.32, "resolution": 0.05}),
        ("OTHER_LOAD", {"threads": Threads(128, 128, 128, None)}, {"other_cores": 1.34, "resolution": 0.05}),
        ("STOLEN_TIME", {}, {"steal_percent": 3.0, "own_cores": 4.0}),
        (None, {}, {"steal_percent": 25.0, "other_cores": 0.02}),
        ("THROTTLED", {}, {"throttled_seconds": 0.4}),
        (None, {}, {"throttled_seconds": 0.004, "seconds": 4.0}),
    ],
)
def test_each_condition_gives_exactly_its_own_warning(
    code: str | None, machine: dict[str, Any], usage: dict[str, Any]
) -> None:
    """With a hint, and no placeholder left in it; more conditions are those of runs, in test_run_warnings.py."""
    found = warnings_of(machine_with(**machine), replace(QUIET, **usage))
    assert [warning.code for warning in found] == ([code] if code else [])
    assert all(warning.hint and "{" not in warning.message + warning.hint for warning in found)


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "numactl --physcpubind=20-63 --membind=1 modelzoo …, or taskset --cpu-list 20-63 modelzoo …"),
        ({"container": "docker"}, "docker run --cpuset-cpus=20-63 --cpuset-mems=1 …"),
        (
            {"container": "docker", "threads": Threads(4, 64, 64, 4.0)},
            "docker run --cpuset-cpus=20-23 --cpuset-mems=1 …",
        ),
        ({"container": "podman"}, "podman run --cpuset-cpus=20-63 --cpuset-mems=1 …"),
        ({"container": "kubernetes"}, "taskset --cpu-list 20-63 modelzoo …"),
        (
            {"container": "docker", "image_id": "sha256:0"},
            "numactl --physcpubind=20-63 --membind=1 modelzoo …, or taskset --cpu-list 20-63 modelzoo …",
        ),
    ],
)
def test_threads_on_several_nodes_can_be_bound_by_the_command_that_is_shown(
    changes: dict[str, object], command: str
) -> None:
    """To the largest node; a container that the suite itself has started has the CPUs of the suite."""
    machine = machine_with(nodes=TWO_NODES, **{"threads": Threads(64, 64, 64, None), **changes})
    (found,) = (warning for warning in system_warnings(machine) if warning.code == "NUMA")
    assert found.message == "threads and memory may be spread over 2 NUMA nodes"
    assert found.hint == f"bind them to one node: {command}"


NUMPY_OPENBLAS = Library("blas", "openblas", "0.3.30", "Haswell", "pthreads", 8, "numpy", "libscipy_openblas.so")


@pytest.mark.parametrize(
    ("name", "backends", "is_reported"),
    [
        ("OPENBLAS_CORETYPE", ("onednn+acl", "openblas"), True),
        ("OPENBLAS_CORETYPE", ("onednn", "mkl"), False),
        ("MKL_ENABLE_INSTRUCTIONS", ("onednn", "mkl"), True),
        ("MKL_ENABLE_INSTRUCTIONS", ("onednn+acl", "openblas"), False),
        ("NVPL_BLAS_DEBUG_CPU_TYPE", ("onednn+acl", "nvpl"), True),
        ("DNNL_MAX_CPU_ISA", ("onednn+acl", "openblas"), True),
        ("ONEDNN_MAX_CPU_ISA", ("openblas",), False),
        ("ATEN_CPU_CAPABILITY", (), True),
    ],
)
def test_a_variable_that_forces_kernels_counts_if_torch_uses_its_library(
    name: str, backends: tuple[str, ...], is_reported: bool
) -> None:
    """The OpenBLAS of numpy, which is loaded, too, does not compute what torch does."""
    libraries = replace(LIBRARIES, backends=backends, loaded=(OPENMP, NUMPY_OPENBLAS))
    found = warnings_of(machine_with(environment={name: "Haswell"}), libraries=libraries)
    assert [each.code for each in found] == (["FORCED_KERNELS"] if is_reported else [])
    assert all(f"{name}=Haswell" in each.message for each in found)


def of_ceilings(*products: tuple[str, int, str, float]) -> dict[str, Ceilings]:
    """Ceilings of these products with 8 threads."""
    return {"ceilings": replace(CEILINGS, gemm=tuple(Gemm(kind, 8, *each) for kind, *each in products))}


LIMITED = {"libraries": replace(LIBRARIES, loaded=(OPENBLAS,))}
IOMP = replace(OPENMP, owner="sklearn", file="libiomp5.so")
TWO = {"libraries": replace(LIBRARIES, loaded=(OPENMP, IOMP), two_openmp=True)}
WRONG_PAIR = {"libraries": replace(LIBRARIES, versions={"torch": "2.13.0", "torchvision": "0.25.0"})}
POOR = {"ceilings": replace(CEILINGS, gemm=(CEILINGS.gemm[0], Gemm("fp32", 8, 2048, "mm", 120.0)))}
# Compared by the largest size that both precisions have, per operator.
SLOW_BF16 = of_ceilings(
    *(("fp32", 1024, "mm", 280.0), ("fp32", 2048, "mm", 300.0), ("bf16", 1024, "mm", 70.0)),
    *(("fp32", 1024, "linear", 280.0), ("bf16", 1024, "linear", 700.0)),
)
# On x86, Linear layers call what torch.mm does; on ARM they are measured by themselves.
LIKE_MM = (("fp32", 2048, "mm", 200.0), ("fp32", 1024, "conv", 400.0))


@pytest.mark.parametrize(
    ("code", "machine", "given", "says"),
    [
        ("TWO_OPENMP", {}, TWO, "sklearn: libiomp5.so"),
        ("MISMATCHED_PAIR", {}, WRONG_PAIR, ""),
        ("MISMATCHED_PAIR", {}, {"torchvision_problem": "built for another torch"}, ""),
        ("POOR_SCALING", {}, POOR, ""),
        ("SLOW_BF16", {}, SLOW_BF16, "(bf16 relative to fp32: mm 0.25)"),
        ("NO_BF16_HARDWARE", {"has_bf16": False}, SLOW_BF16, ""),
        ("SLOW_LINEAR", {}, of_ceilings(*LIKE_MM), "runs at 0.50× oneDNN"),
        (None, {}, of_ceilings(*LIKE_MM, ("fp32", 1024, "linear", 390.0)), ""),
        ("OPENBLAS_LIMIT", {"threads": Threads(192, 192, 192, None)}, LIMITED, "default is 128 and not all 192 cores"),
        (None, {}, LIMITED, ""),
        ("PAGE_FAULTS", {}, {"faults_per_mib": 256.0}, ""),
    ],
)
def test_libraries_and_ceilings_give_exactly_their_own_warning(
    code: str | None, machine: dict[str, Any], given: dict[str, Any], says: str
) -> None:
    """Other load explains slow products."""
    found = warnings_of(machine_with(**machine), **given)
    assert [warning.code for warning in found] == ([code] if code else [])
    assert all(says in warning.message for warning in found)
    if code in ("POOR_SCALING", "SLOW_BF16", "SLOW_LINEAR"):
        assert codes(ceilings=replace(given["ceilings"], other_cores=1.0)) == set()


def test_page_faults_of_a_run_are_reported() -> None:
    """The rate of Mask R-CNN and not that of ResNet50."""
    [warning] = usage_warnings(replace(QUIET, seconds=5.0, minor_faults=700_000), SERVER)
    assert warning.code == "PAGE_FAULTS"
    assert not [*usage_warnings(QUIET, SERVER)]
