"""Every condition that distorts results is found, and only if it is there."""

from __future__ import annotations

import pytest
from example_machine import CEILINGS, LIBRARIES, OPENMP, QUIET, SERVER, machine_with

from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import diagnosis
from modelzoo.machine.diagnosis import diagnose, system_warnings, usage_warnings
from modelzoo.records.libraries import Library
from modelzoo.records.machine import CpuUsage, NumaNode, Threads
from modelzoo.records.profile import Gemm


def codes(**given: object) -> set[str]:
    """Return the codes of the warnings for the good machine, with changes to ``machine``, ``usage`` and so on."""
    values = {"machine": SERVER, "libraries": LIBRARIES, "usage": QUIET, "ceilings": CEILINGS, **given}
    return {warning.code for warning in diagnose(**values)}  # type: ignore[arg-type]


def usage_with(**changes: object) -> CpuUsage:
    """Return the usage of the quiet machine with ``changes``."""
    return replace(QUIET, **changes)  # type: ignore[arg-type]


def test_a_good_machine_gets_no_warning() -> None:
    """Nothing is reported if nothing is wrong, or if it was not measured."""
    assert codes() == set()
    assert codes(ceilings=None, usage=None, faults_per_mib=0.5) == set()


TWO_NODES = (NumaNode(0, "0-19", 20), NumaNode(1, "20-63", 44))
MACHINES = [
    ("GOVERNOR", {"governor": "schedutil"}),
    ("GOVERNOR", {"governor": "performance+powersave"}),
    ("HUGE_PAGES", {"huge_pages": "never"}),
    ("SMT", {"threads_per_core": 2, "threads": Threads(8, 8, 16, None)}),
    ("CPU_QUOTA", {"threads": Threads(2, 8, 8, 2.5)}),
    ("NUMA", {"numa_nodes": 2, "numa_allowed": 2, "nodes": TWO_NODES}),
    ("SMALL_MEMORY", {"memory_limit": 4 << 30}),
    ("EMULATED", {"emulator": "qemu-user"}),
    ("NO_BF16_HARDWARE", {"has_bf16": False}),
    ("DEFAULT_MALLOC", {"allocator": "glibc"}),
    ("WAIT_POLICY", {"environment": {"OMP_WAIT_POLICY": "PASSIVE"}}),
    ("FAST_MATH", {"environment": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}}),
    ("THREADS_VARIABLE", {"environment": {"OMP_NUM_THREADS": "16,2"}}),
]


@pytest.mark.parametrize(("code", "changes"), MACHINES)
def test_each_condition_of_the_machine_is_found_alone(code: str, changes: dict[str, object]) -> None:
    """One condition gives exactly its own warning."""
    assert codes(machine=machine_with(**changes)) == {code}


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


@pytest.mark.parametrize(
    "changes",
    [
        {"governor": None},
        {"huge_pages": "madvise"},
        {"threads_per_core": 2},  # the mask leaves the siblings out already
        {"threads": Threads(8, 8, 8, 8.0)},
        {"numa_nodes": 2, "nodes": TWO_NODES[:1]},  # bound to one of them
        {"allocator": "glibc", "environment": {"MALLOC_MMAP_THRESHOLD_": "4294967296"}},
        {"allocator": "glibc", "environment": {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296"}},
        {"environment": {"DNNL_DEFAULT_FPMATH_MODE": "STRICT"}},
        {"environment": {"OMP_NUM_THREADS": "8"}},
    ],
)
def test_fixed_conditions_are_not_reported(changes: dict[str, object]) -> None:
    """Following the hint makes the warning disappear."""
    assert codes(machine=machine_with(**changes)) == set()


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("OTHER_LOAD", {"other_cores": 0.2}),
        ("STOLEN_TIME", {"steal_percent": 3.0, "own_cores": 4.0}),
        ("THROTTLED", {"throttled_seconds": 0.4}),
    ],
)
def test_each_condition_of_the_usage_is_found_alone(code: str, changes: dict[str, object]) -> None:
    """Other load, stolen time and throttling each give their own warning."""
    assert codes(usage=usage_with(**changes)) == {code}


@pytest.mark.parametrize(("cpus", "limit"), [(2, 0.1), (10, 0.1), (128, 1.28)])
def test_more_cpus_may_do_more_for_others(cpus: int, limit: float) -> None:
    """A tenth of a core is less than what the services of a large server take; the clock's resolution comes on top."""
    machine = machine_with(threads=Threads(cpus, cpus, cpus, None))
    found = [codes(machine=machine, usage=usage_with(other_cores=limit + by, resolution=0.05)) for by in (0.04, 0.06)]
    assert found == [set(), {"OTHER_LOAD"}]


@pytest.mark.parametrize(
    "changes",
    [
        {"other_cores": 0.15, "resolution": 0.2},
        {"other_cores": 0.05},
        {"other_cores": None, "steal_percent": None},
        {"steal_percent": 25.0, "other_cores": 0.02},
        {"throttled_seconds": 0.0},
        {"throttled_seconds": 0.004, "seconds": 4.0},
    ],
)
def test_usage_below_the_resolution_is_not_reported(changes: dict[str, object]) -> None:
    """A load within the resolution of the clock, or a large percentage of nearly nothing, is not evidence."""
    assert codes(usage=usage_with(**changes)) == set()


def test_page_faults_during_a_run_are_reported() -> None:
    """The rate of page faults of Mask R-CNN is reported, that of ResNet50 is not."""
    faults = usage_with(seconds=5.0, minor_faults=700_000)
    assert [warning.code for warning in usage_warnings(faults, SERVER)] == ["PAGE_FAULTS"]
    assert usage_warnings(QUIET, SERVER) == ()


def test_the_probe_decides_over_the_variables() -> None:
    """256 faults per MiB are reported for any allocator; with none, glibc is not reported either."""
    assert codes(faults_per_mib=256.0) == {"PAGE_FAULTS"}
    assert codes(machine=machine_with(allocator="glibc"), faults_per_mib=0.1) == set()


def test_variables_that_force_kernels_are_reported() -> None:
    """A core type left over from another machine costs speed silently."""
    warnings = diagnose(machine_with(environment={"OPENBLAS_CORETYPE": "Haswell"}), LIBRARIES, QUIET)
    assert [warning.code for warning in warnings] == ["FORCED_KERNELS"]
    assert "OPENBLAS_CORETYPE=Haswell" in warnings[0].message


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
def test_a_variable_counts_if_torch_uses_its_library(name: str, backends: tuple[str, ...], is_reported: bool) -> None:
    """The OpenBLAS of numpy, which is loaded, too, does not compute what torch does."""
    libraries = replace(LIBRARIES, backends=backends, loaded=(OPENMP, NUMPY_OPENBLAS))
    found = codes(machine=machine_with(environment={name: "a value"}), libraries=libraries)
    assert found == ({"FORCED_KERNELS"} if is_reported else set())


def test_two_openmp_runtimes_and_mismatched_versions_are_reported() -> None:
    """Two thread pools in one process, and torchvision of another release than torch."""
    iomp = replace(OPENMP, owner="sklearn", file="libiomp5.so")
    two = replace(LIBRARIES, loaded=(OPENMP, iomp), two_openmp=True)
    warnings = diagnose(SERVER, two, QUIET)
    assert [warning.code for warning in warnings] == ["TWO_OPENMP"]
    assert "sklearn: libiomp5.so" in warnings[0].message
    wrong = replace(LIBRARIES, versions={"torch": "2.13.0", "torchvision": "0.25.0"})
    assert codes(libraries=wrong) == {"MISMATCHED_PAIR"}
    assert codes(torchvision_problem="built for another torch") == {"MISMATCHED_PAIR"}


def test_poor_scaling_is_reported_on_a_quiet_machine_only() -> None:
    """Eight threads as fast as three are poor, unless other load explains it."""
    poor = replace(CEILINGS, gemm=(Gemm("fp32", 1, 2048, "mm", 40.0), Gemm("fp32", 8, 2048, "mm", 120.0)))
    assert codes(ceilings=poor) == {"POOR_SCALING"}
    assert codes(ceilings=replace(poor, other_cores=1.0)) == set()


def test_products_that_are_slower_in_bf16_are_reported() -> None:
    """By the largest size that both precisions have, per operator, on a quiet machine whose CPU has bf16."""
    slow = replace(
        CEILINGS,
        gemm=(
            Gemm("fp32", 8, 1024, "mm", 280.0),
            Gemm("fp32", 8, 2048, "mm", 300.0),
            Gemm("bf16", 8, 1024, "mm", 70.0),
            Gemm("fp32", 8, 1024, "linear", 280.0),
            Gemm("bf16", 8, 1024, "linear", 700.0),
        ),
    )
    [warning] = diagnose(SERVER, LIBRARIES, QUIET, slow)
    assert warning.code == "SLOW_BF16"
    assert "(bf16 relative to fp32: mm 0.25)" in warning.message
    assert codes(ceilings=replace(slow, other_cores=1.0)) == set()
    assert codes(ceilings=slow, machine=machine_with(has_bf16=False)) == {"NO_BF16_HARDWARE"}


def test_fp32_products_that_are_slower_than_those_of_onednn_are_reported() -> None:
    """Of x86, where Linear layers call what torch.mm does; on ARM they are measured by themselves."""
    slow = replace(CEILINGS, gemm=(Gemm("fp32", 8, 2048, "mm", 200.0), Gemm("fp32", 8, 1024, "conv", 400.0)))
    [warning] = diagnose(SERVER, LIBRARIES, QUIET, slow)
    assert warning.code == "SLOW_LINEAR"
    assert "runs at 0.50× oneDNN" in warning.message
    assert codes(ceilings=replace(slow, other_cores=1.0)) == set()
    assert codes(ceilings=replace(slow, gemm=(*slow.gemm, Gemm("fp32", 8, 1024, "linear", 390.0)))) == set()


def test_more_cores_than_openblas_has_threads_are_reported() -> None:
    """doctor says what the default is, and why."""
    openblas = Library("blas", "openblas", "0.3.30", "neoversev2", "openmp", 128, "torch", "libopenblas.so", limit=128)
    limited = replace(LIBRARIES, loaded=(openblas,))
    many = machine_with(threads=Threads(192, 192, 192, None))
    [warning] = diagnose(many, limited, QUIET)
    assert warning.code == "OPENBLAS_LIMIT"
    assert "the default is 128 and not all 192 cores" in warning.message
    assert codes(libraries=limited) == set()


def test_every_hint_says_what_to_do() -> None:
    """Each warning has a hint, and no placeholder is left in it."""
    for code, changes in MACHINES:
        warnings = diagnose(machine_with(**changes), LIBRARIES, QUIET)
        warning = next(warning for warning in warnings if warning.code == code)
        assert warning.hint
        assert "{" not in warning.message + warning.hint


def test_other_load_is_not_reported_under_an_emulator() -> None:
    """There the emulator counts as another program, but nothing is timed."""
    busy = usage_with(other_cores=1.82, steal_percent=9.0, own_cores=4.0, throttled_seconds=0.4, minor_faults=700_000)
    emulated = machine_with(emulator="qemu-user")
    assert usage_warnings(busy, emulated) == ()
    assert codes(machine=emulated, usage=busy) == {"EMULATED"}


def test_a_torchvision_that_does_not_load_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of one release from two indexes have matching versions; only loading them shows the problem."""
    assert diagnosis.probe_torchvision() is None

    def fails() -> None:
        raise EnvironmentProblem("built for another torch")

    monkeypatch.setattr(diagnosis, "import_torchvision", fails)
    assert diagnosis.probe_torchvision() == "built for another torch"


def test_page_faults_of_this_machine() -> None:
    """There is at most one fault per page, and some slack for other allocations."""
    faults = diagnosis.probe_page_faults(mib=8, rounds=2)
    assert faults is not None
    assert 0 <= faults < 300
