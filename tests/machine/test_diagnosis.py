"""Every condition that spoils numbers is found, and only where it is."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import ceilings, libraries
from modelzoo.machine import diagnosis as doctor
from modelzoo.machine import facts as machine
from modelzoo.records.ceilings import Bandwidth, Ceilings, Gemm
from modelzoo.records.libraries import Build, Libraries, Library
from modelzoo.records.machine import CpuUsage, Machine, Threads
from modelzoo.report import doctor as doctor_report

SERVER = Machine(
    cpu="Neoverse-N2",
    product=None,
    architecture="aarch64",
    features=("asimddp", "sve2", "bf16"),
    has_bf16=True,
    sve_bits=128,
    sockets=1,
    cores=8,
    logical=8,
    threads_per_core=1,
    numa_nodes=1,
    numa_allowed=1,
    caches=(machine.Cache("L2", 1 << 20, 8),),
    governor="performance",
    mhz=2700.0,
    max_mhz=2700.0,
    huge_pages="always",
    allocator="tcmalloc",
    threads=Threads(8, 8, 8, None, "physical cores"),
    memory=32 << 30,
    memory_limit=32 << 30,
    container=None,
    hypervisor=None,
    emulator=None,
    system="Linux",
    kernel="6.8",
    libc="glibc 2.39",
    python="3.12.1",
    image=None,
    environment={},
)
BUILD = Build("GCC 13.3", "3.7.1", None, "4.5", "DEFAULT", "open", "open", "Release", ("-O2",), {})
OPENMP = Library("openmp", "openmp", None, None, None, 8, "torch", "libgomp.so.1")
INSTALLED = Libraries(
    versions={"python": "3.12.1", "torch": "2.10.0", "torchvision": "0.25.0"},
    build=BUILD,
    build_line=BUILD.line,
    onednn=True,
    mkl=False,
    openmp=True,
    acl=True,
    acl_evidence="libarm_compute.so comes with torch",
    backends=("onednn+acl", "openblas"),
    loaded=(OPENMP,),
    two_openmp=False,
    threads=8,
    interop_threads=8,
)
QUIET = CpuUsage(2.0, 0.0, 0.01, 0.0, 0.01, 100, 0, None)
CEILINGS = Ceilings(
    "f",
    "2.10.0",
    8,
    (
        Gemm("fp32", 1, 2048, "mm", 40.0),
        Gemm("fp32", 8, 2048, "mm", 300.0),
        Gemm("bf16", 8, 512, "mm", 900.0),
    ),
    (Bandwidth(1, 1 << 28, 20.0), Bandwidth(8, 1 << 28, 90.0)),
    20.0,
    0.01,
)


def codes(**given: object) -> set[str]:
    """Codes of the advice for the good machine with changes to ``machine``, ``load`` and so on."""
    values = {"machine": SERVER, "libraries": INSTALLED, "load": QUIET, "found": CEILINGS, **given}
    return {entry.code for entry in doctor.diagnose(**values)}  # type: ignore[arg-type]


def replaced(**changes: object) -> Machine:
    return dataclasses.replace(SERVER, **changes)  # type: ignore[arg-type]


def test_a_good_machine_gets_no_advice() -> None:
    """Nothing is said where nothing is wrong."""
    assert codes() == set()
    assert codes(found=None, load=None, faults_per_mib=0.5) == set()


MACHINES = [
    ("GOVERNOR", {"governor": "schedutil"}),
    ("GOVERNOR", {"governor": "performance+powersave"}),
    ("HUGE_PAGES", {"huge_pages": "never"}),
    ("SMT", {"threads_per_core": 2, "threads": Threads(8, 8, 16, None, "")}),
    ("CPU_QUOTA", {"threads": Threads(2, 8, 8, 2.5, "")}),
    ("NUMA", {"numa_nodes": 2, "numa_allowed": 2}),
    ("SMALL_MEMORY", {"memory_limit": 4 << 30}),
    ("EMULATED", {"emulator": "qemu-user"}),
    ("NO_BF16_HARDWARE", {"has_bf16": False}),
    ("PAGE_FAULTS", {"allocator": "glibc"}),
    ("WAIT_POLICY", {"environment": {"OMP_WAIT_POLICY": "PASSIVE"}}),
    ("FAST_MATH", {"environment": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}}),
    ("THREADS_VARIABLE", {"environment": {"OMP_NUM_THREADS": "16,2"}}),
]


@pytest.mark.parametrize(("code", "changes"), MACHINES)
def test_each_condition_of_the_machine_is_found_alone(code: str, changes: dict[str, object]) -> None:
    """One planted condition gives exactly its own advice."""
    assert codes(machine=replaced(**changes)) == {code}


@pytest.mark.parametrize(
    "changes",
    [
        {"governor": None},
        {"huge_pages": "madvise"},
        {"threads_per_core": 2},  # the mask leaves the siblings out already
        {"threads": Threads(8, 8, 8, 8.0, "")},
        {"numa_nodes": 2},  # bound to one of them
        {"allocator": "glibc", "environment": {"MALLOC_MMAP_THRESHOLD_": "4294967296"}},
        {"allocator": "glibc", "environment": {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296"}},
        {"environment": {"DNNL_DEFAULT_FPMATH_MODE": "STRICT"}},
        {"environment": {"OMP_NUM_THREADS": "8"}},
    ],
)
def test_conditions_already_mended_are_not_named(changes: dict[str, object]) -> None:
    """What the hint asks for, done, makes the advice go away."""
    assert codes(machine=replaced(**changes)) == set()


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("OTHER_LOAD", {"other_cores": 0.2}),
        ("STOLEN_TIME", {"steal_percent": 3.0, "own_cores": 4.0}),
        ("THROTTLED", {"throttled_seconds": 0.4}),
    ],
)
def test_each_condition_of_the_load_is_found_alone(code: str, changes: dict[str, object]) -> None:
    """Other load, stolen time and throttling each give their own advice."""
    assert codes(load=dataclasses.replace(QUIET, **changes)) == {code}  # type: ignore[arg-type]


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
def test_load_below_what_can_be_seen_is_not_named(changes: dict[str, object]) -> None:
    """A load within the clock's resolution, and a share of next to nothing, are no evidence."""
    assert codes(load=dataclasses.replace(QUIET, **changes)) == set()  # type: ignore[arg-type]


def test_page_faults_during_a_run_are_named() -> None:
    """Mask R-CNN's rate of page faults is seen in a run's load, ResNet's is not."""
    many = dataclasses.replace(QUIET, seconds=5.0, minor_faults=700_000)
    assert [entry.code for entry in doctor.load_warnings(many, SERVER)] == ["PAGE_FAULTS"]
    assert doctor.load_warnings(QUIET, SERVER) == ()


def test_the_probe_decides_over_the_variables() -> None:
    """256 faults a MiB are named whatever the allocator's name; none are not."""
    assert codes(faults_per_mib=256.0) == {"PAGE_FAULTS"}
    assert codes(machine=replaced(allocator="glibc"), faults_per_mib=0.1) == set()


def test_variables_that_force_kernels_are_named() -> None:
    """A core type left over from another machine costs speed and says nothing."""
    advice = doctor.diagnose(replaced(environment={"OPENBLAS_CORETYPE": "Haswell"}), INSTALLED, QUIET)
    assert [entry.code for entry in advice] == ["FORCED_KERNELS"]
    assert "OPENBLAS_CORETYPE=Haswell" in advice[0].message


def test_two_openmp_runtimes_and_a_wrong_pair_are_named() -> None:
    """Two thread pools in one process, and torch with another release's torchvision."""
    iomp = dataclasses.replace(OPENMP, owner="sklearn", file="libiomp5.so")
    two = dataclasses.replace(INSTALLED, loaded=(OPENMP, iomp), two_openmp=True)
    advice = doctor.diagnose(SERVER, two, QUIET)
    assert [entry.code for entry in advice] == ["TWO_OPENMP"]
    assert "sklearn: libiomp5.so" in advice[0].message
    wrong = dataclasses.replace(INSTALLED, versions={"torch": "2.13.0", "torchvision": "0.25.0"})
    assert codes(libraries=wrong) == {"MISMATCHED_PAIR"}
    assert codes(pair_problem="built for another torch") == {"MISMATCHED_PAIR"}


def test_a_pair_that_does_not_load_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two indexes' builds of one release have matching versions; only loading them tells."""
    assert doctor.probe_pair() is None

    def fails() -> None:
        raise EnvironmentProblem("built for another torch")

    monkeypatch.setattr(libraries, "import_torchvision", fails)
    assert doctor.probe_pair() == "built for another torch"


def test_poor_scaling_is_named_on_a_quiet_machine_only() -> None:
    """Eight threads at three times one are poor, unless other load explains it."""
    poor = dataclasses.replace(CEILINGS, gemm=(Gemm("fp32", 1, 2048, "mm", 40.0), Gemm("fp32", 8, 2048, "mm", 120.0)))
    assert codes(found=poor) == {"POOR_SCALING"}
    assert codes(found=dataclasses.replace(poor, other_cores=1.0)) == set()


def test_every_hint_says_what_to_do() -> None:
    """No message or hint is left with a placeholder."""
    for code, changes in MACHINES:
        advice = doctor.diagnose(replaced(**changes), INSTALLED, QUIET)
        entry = next(entry for entry in advice if entry.code == code)
        assert entry.hint
        assert "{" not in entry.message + entry.hint


def run(monkeypatch: pytest.MonkeyPatch, here: Machine, path: Path | None, measured: list[int]) -> str:
    """Run the doctor on a planted machine and return what it printed."""

    def find_ceilings(of: Machine, **_: object) -> tuple[Ceilings, bool]:
        measured.append(1)
        return CEILINGS, False

    monkeypatch.setattr(doctor, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(machine, "facts", lambda: here)
    monkeypatch.setattr(libraries, "facts", lambda: INSTALLED)
    monkeypatch.setattr(ceilings, "find_ceilings", find_ceilings)
    monkeypatch.setattr(doctor, "probe_faults", lambda: 0.0)
    out = Console(file=io.StringIO(), width=120)
    assert doctor.run_doctor(out, path) == 0
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_run_doctor_prints_and_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Machine, ceilings, scaling and advice are printed, and all of it is in the JSON."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    here = replaced(governor="powersave", environment={"DNNL_DEFAULT_FPMATH_MODE": "BF16"})
    shown = run(monkeypatch, here, tmp_path / "d.json", measured := [])
    assert measured == [1]
    for word in (
        "Neoverse-N2",
        "fp32 mm, GFLOP/s",
        "300",
        "94 % of perfect",
        "GOVERNOR",
        "cpupower",
        "FAST_MATH",
    ):
        assert word in shown
    stored = json.loads((tmp_path / "d.json").read_text())
    assert stored["schema"] == doctor.SCHEMA
    assert {"GOVERNOR", "FAST_MATH"} <= {entry["code"] for entry in stored["advice"]}
    assert stored["ceilings"]["threads"] == 8
    # What would make fp32 less than fp32 is gone before torch measures.
    assert "DNNL_DEFAULT_FPMATH_MODE" not in doctor.os.environ


def test_nothing_is_timed_under_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor says so and measures nothing."""
    shown = run(monkeypatch, replaced(emulator="qemu-user"), None, measured := [])
    assert measured == []
    assert "EMULATED" in shown
    assert "no ceilings" in shown


def test_an_unwritable_report_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory that does not exist is the user's error."""
    with pytest.raises(UsageError, match="cannot be written"):
        run(monkeypatch, SERVER, tmp_path / "none" / "d.json", [])


def test_rows_of_a_machine_that_tells_nothing() -> None:
    """Unknown facts print as such."""
    bare = replaced(caches=(), governor=None, mhz=None, max_mhz=None, allocator=None, memory=None, sockets=None)
    rows = dict(doctor_report.machine_rows(bare))
    assert rows["caches"] == "unknown"
    assert rows["clock"] == "unknown"
    assert "? sockets" in rows["cores"]
    assert rows["runs in"] == "the bare machine"


def test_the_probe_on_this_machine() -> None:
    """The real probe counts no more than every page."""
    found = doctor.probe_faults(mib=8, rounds=2)
    assert found is not None
    assert 0 <= found < 300
