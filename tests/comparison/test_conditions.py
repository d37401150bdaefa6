"""What both sides of a comparison have in common, and what differs."""

from __future__ import annotations

from typing import Any

import pytest
from compared_rows import row_of, setting_of, stored_row
from example_machine import BUILD, LIBRARIES, machine_with
from exported_results import exported
from fake_runs import WEIGHTS, evidence, make, result_of
from hypothesis import given, settings
from hypothesis import strategies as st
from places import DATA
from record_strategies import values

from modelzoo.comparison.conditions import Conditions, Difference, conditions, groups
from modelzoo.comparison.model import Row
from modelzoo.frozen import replace
from modelzoo.records.accelerator import Accelerator, AcceleratorUse
from modelzoo.records.evidence import OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.libraries import Libraries, Library
from modelzoo.records.machine import Machine, Threads
from modelzoo.records.run import EnvironmentChanges, RunReport
from modelzoo.results.refusals import SideSetting
from modelzoo.setting import Setting
from modelzoo.views.compare_columns import values_text


def side(**changes: Any) -> SideSetting:
    """One process on the good machine, with these changes of its report."""
    return setting_of(make([1.0], **{"machine": machine_with(), "libraries": LIBRARIES, **changes}))


def found(base: SideSetting, other: SideSetting) -> Conditions:
    """The conditions of a comparison with a single row."""
    return conditions([row_of(base, other)])


def differing(base: SideSetting, other: SideSetting) -> list[tuple[str, str, str]]:
    """Name and both values of what differs."""
    return [(each.name, values_text(each.base), values_text(each.other)) for each in found(base, other).differing]


def test_what_is_equal_is_said_once() -> None:
    """Nothing differs between a process and itself, and what neither reports is left out."""
    same = found(side(), side())
    assert same.differing == ()
    shared = dict(same.shared)
    assert shared["CPU"] == ("Neoverse-N2",)
    assert shared["torch"] == ("2.10.0",)
    assert shared["L2 cache"] == ("8 × 1024 KiB",)
    assert "cloud" not in shared
    assert "hypervisor" not in shared, "that there is none on both sides is no condition"
    assert () not in shared.values()


def test_the_most_decisive_comes_first() -> None:
    """The processor, then the system, then the software, the threads, the variables, the suite."""
    other = setting_of(
        make(
            [1.0],
            setting=Setting(threads=2),
            machine=machine_with(cpu="Xeon", governor="powersave", environment={"MALLOC_ARENA_MAX": "1"}),
            libraries=replace(LIBRARIES, versions={**LIBRARIES.versions, "torch": "2.9.1"}),
        ),
        result=replace(result_of(make([1.0])), version="0.0.1"),
    )
    assert [name for name, _, _ in differing(side(), other)] == [
        "CPU",
        "governor",
        "torch",
        "threads",
        "variable MALLOC_ARENA_MAX",
        "modelzoo",
    ]


def test_a_variable_counts_as_the_process_had_it() -> None:
    """What the suite applied is set, what it removed is not, and what it keeps for itself is no condition."""
    cache = machine_with(environment={"MODELZOO_CACHE": "/elsewhere", "OMP_NUM_THREADS": "1"})
    base = side(environment=EnvironmentChanges(removed={"DNNL_DEFAULT_FPMATH_MODE": "BF16"}), machine=cache)
    other = side(environment=EnvironmentChanges(applied={"DNNL_DEFAULT_FPMATH_MODE": "BF16"}))
    assert differing(base, other) == [("variable DNNL_DEFAULT_FPMATH_MODE", "not set", "BF16")]


def test_threads_are_not_said_again_as_a_variable() -> None:
    """``OMP_NUM_THREADS`` follows the setting, unless it contradicts it."""
    base = side(setting=Setting(threads=2), machine=machine_with(environment={"OMP_NUM_THREADS": "2"}))
    other = side(setting=Setting(threads=4), machine=machine_with(environment={"OMP_NUM_THREADS": "4"}))
    assert differing(base, other) == [("threads", "2", "4")]
    odd = side(setting=Setting(threads=2), machine=machine_with(environment={"OMP_NUM_THREADS": "1"}))
    assert differing(base, odd) == [("variable OMP_NUM_THREADS", "not set", "1")]


def test_what_was_not_recorded_is_unknown() -> None:
    """A package that is not listed need not be missing: older versions listed fewer."""
    base = side(versions={"torch": "2.10.0", "numpy": "2.0"})
    assert differing(base, side(versions={"torch": "2.10.0"})) == [("numpy", "2.0", "unknown")]
    nothing = side(versions={}, libraries=None)
    assert ("torch", "2.10.0", "unknown") in differing(base, nothing)
    assert ("numpy", "2.0", "unknown") in differing(base, nothing)
    assert differing(base, side(versions={"torch": "2.10.0", "numpy": ""})) == [("numpy", "2.0", "unknown")]


def test_what_only_one_side_knows_comes_last() -> None:
    """It is not known to differ, however decisive it would be."""
    other = side(machine=machine_with(governor=None, kernel="5.10"))
    assert [name for name, _, _ in differing(side(), other)] == ["kernel", "governor"]
    assert differing(side(libraries=None), other)[0][0] == "kernel"


def test_sizes_of_memory_that_differ_by_a_boot_are_equal() -> None:
    """Kernels reserve slightly different amounts; the current clock is no condition either."""
    booted = machine_with(memory=(32 << 30) - 12345, memory_limit=(32 << 30) - 12345, mhz=1200.0)
    assert differing(side(), side(machine=booted)) == []


def test_processes_of_a_side_that_differ_show_all_their_values() -> None:
    """A side whose sessions ran under two kernels differs from one that ran under one of them."""
    two = [make([1.0], machine=machine_with(kernel=kernel)) for kernel in ("6.8", "6.1")]
    one = make([1.0], machine=machine_with())
    assert differing(setting_of(one), setting_of(*two)) == [("kernel", "6.8", "6.1, 6.8")]


def test_rows_that_differ_alone_are_named() -> None:
    """A difference in one row names it; values that differ between rows only are shared all the same."""
    rows: list[Row] = []
    for name, sha, threads in (("one", "a", 4), ("two", "b", 4), ("three", "c", 2)):
        weights = replace(WEIGHTS, sha256=sha)
        sides = [make([1.0], workload=name, weights=weights, setting=Setting(threads=t)) for t in (4, threads)]
        rows.append(row_of(*(setting_of(run) for run in sides)))
    both = conditions(rows)
    assert both.differing == (Difference("threads", ("4",), ("2",), ("three fp32",)),)
    assert dict(both.shared)["weights"] == ()
    assert dict(both.shared)["batch"] == ("4",)


def test_rows_without_a_finished_run_on_both_sides_say_nothing() -> None:
    """A failed process reports no conditions."""
    failed = setting_of(make(None, error="no"))
    assert conditions([row_of(side(), failed)]) == Conditions((), ())


def test_kernels_of_a_stored_result() -> None:
    """fp32 and bf16 of one session share the machine and the software, and differ in the kernels."""
    real = conditions([stored_row(DATA / "results" / "sessions.json")])
    assert [each.name for each in real.differing] == ["precision", "kernels of linear"]
    assert real.differing[1].base == ("mkl sgemm (fp32)",)
    assert real.differing[1].other == ("oneDNN brg_matmul:avx512_core_bf16 (bf16)",)


SIDES = st.builds(
    side, machine=values(Machine), environment=values(EnvironmentChanges), libraries=values(Libraries | None)
)


@settings(max_examples=25)
@given(SIDES, SIDES)
def test_any_two_sides_can_be_compared(one: SideSetting, two: SideSetting) -> None:
    """A side has no difference to itself, and differences are the same from the other side."""
    assert found(one, one).differing == ()
    there = {(each.name, each.base, each.other) for each in found(one, two).differing}
    assert {(each.name, each.other, each.base) for each in found(two, one).differing} == there


@given(st.permutations([4, 2, 1]))
def test_the_order_of_the_rows_changes_nothing(threads: list[int]) -> None:
    """Only the order in which a difference names them."""
    rows = [
        row_of(*(setting_of(make([1.0], workload=str(count), setting=Setting(threads=t))) for t in (count, 4)))
        for count in threads
    ]
    assert {(each.base, each.rows) for each in conditions(rows).differing} == {
        (("2",), ("2 fp32",)),
        (("1",), ("1 fp32",)),
    }


def facts(**changes: Any) -> dict[str, str | None]:
    """All facts of a run on the good machine with these changes of its report."""
    run = make([1.0], **{"machine": machine_with(), "libraries": LIBRARIES, **changes})
    assert run.report is not None
    return read(run.report)


def read(report: RunReport, commit: str | None = None) -> dict[str, str | None]:
    """All facts of a report."""
    result = replace(result_of(), commit=commit)
    found = [group for group in groups(report, result) if group is not None]
    return {name: " | ".join(sorted(values)) or None for group in found for name, values in group.values.items()}


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"features": ()}, "features", "none"),
        ({"hypervisor": None}, "hypervisor", "none"),
        ({"max_mhz": 3500.0}, "max mhz", "3500"),
        ({"memory": 32 << 30}, "memory", "32 GiB"),
        ({"memory_limit": None}, "memory limit", None),
        ({"threads": Threads(2, 2, 2, 1.5, "0-1")}, "CPU quota", "1.5"),
        ({"niceness": 5}, "niceness", "5"),
        ({"environment": {"LD_PRELOAD": "libtcmalloc.so"}}, "variable LD_PRELOAD", "libtcmalloc.so"),
    ],
)
def test_facts_of_the_machine(changes: dict[str, Any], name: str, text: str | None) -> None:
    """As text; what the system does not report is None."""
    assert facts(machine=machine_with(**changes))[name] == text


def test_the_engine_has_its_version_and_its_exporter() -> None:
    """The version of torch, which it was exported with, stands beside them."""
    found = facts(**exported())
    assert (found["engine"], found["onnxruntime"], found["torch"]) == ("onnxruntime", "1.23.2", "2.10.0")
    assert (found["exporter version"], found["exporter opset"]) == ("torch 2.10", "17")
    assert facts(versions={"torch": "2.10.0"})["engine"] == "torch"
    assert "exporter version" not in facts()


def test_facts_of_the_libraries() -> None:
    """The build, and what is loaded; the size of a pool follows the threads and is left out."""
    openblas = Library("blas", "openblas", "0.3.29", "neoversen2", "pthreads", 8, "numpy", "libopenblas.so")
    build = replace(BUILD, settings={"USE_CUDA": "OFF", "TORCH_VERSION": "2.10.0"})
    found = facts(libraries=replace(LIBRARIES, build=build, loaded=(*LIBRARIES.loaded, openblas)))
    assert found["openblas of numpy"] == "0.3.29 neoversen2 pthreads"
    assert found["openmp of torch"] == "libgomp.so.1"
    assert (found["torch's onednn"], found["torch's compiler"], found["torch's mkl"]) == ("3.7.1", "GCC 13.3", None)
    assert found["torch's USE_CUDA"] == "OFF"
    assert "torch's TORCH_VERSION" not in found


def test_facts_of_the_accelerator() -> None:
    """Its product, capability, memory and software, and whether its clocks were locked; a run on a CPU has none."""
    gpu = Accelerator("cuda", 1, "NVIDIA H100", "9.0", "550.54", "CUDA 12.8", 80 << 30)
    found = facts(accelerator=AcceleratorUse(gpu, locked_mhz=1200))
    assert (found["accelerator name"], found["accelerator capability"]) == ("NVIDIA H100", "9.0")
    assert (found["accelerator driver"], found["accelerator runtime"]) == ("550.54", "CUDA 12.8")
    assert (found["accelerator memory"], found["locked clock"]) == ("80 GiB", "1200")
    assert "accelerator name" not in facts()


def test_facts_of_the_work() -> None:
    """Digests are shortened, and switches are divided into name and value."""
    found = facts(
        setting=Setting(precision="bf16", batch=8),
        inputs_digest="0123456789abcdef",
        switches=("torch.backends.mkldnn.enabled=False", "a switch"),
    )
    assert (found["batch"], found["precision"], found["inputs"]) == ("8", "bf16=autocast", "0123456789ab")
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
