"""What both sides of a comparison have in common, and what differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from example_machine import BUILD, LIBRARIES, machine_with
from exported_results import exported
from fake_runs import WEIGHTS, make, result_of
from hypothesis import given, settings
from hypothesis import strategies as st
from proven_results import side_setting
from record_strategies import values

from modelzoo.comparison.conditions import Conditions, Difference, conditions, groups
from modelzoo.frozen import replace
from modelzoo.records.equipment import Accelerator, AcceleratorUse, Libraries, Library
from modelzoo.records.machine import Machine, Threads
from modelzoo.records.run import EnvironmentChanges, RunReport
from modelzoo.results.refusals import SideSetting
from modelzoo.setting import Setting
from modelzoo.views.comparison import values_text


def side(**changes: Any) -> SideSetting:
    """One process on the good machine, with these changes of its report."""
    return side_setting(result_of(make([1.0], **{"machine": machine_with(), "libraries": LIBRARIES, **changes})))


def found(base: SideSetting, other: SideSetting) -> Conditions:
    """The conditions of a comparison with a single row."""
    return conditions({"toy fp32": (base, other)})


def differing(base: SideSetting, other: SideSetting) -> list[tuple[str, str, str]]:
    """Name and both values of what differs."""
    return [(each.name, values_text(each.base), values_text(each.other)) for each in found(base, other).differing]


def test_what_is_equal_is_said_once() -> None:
    """Nothing differs between a process and itself, and what neither reports is left out."""
    same = found(side(), side())
    shared = dict(same.shared)
    assert (same.differing, shared["CPU"], shared["L2 cache"]) == ((), ("Neoverse-N2",), ("8 × 1024 KiB",))
    assert not {"cloud", "hypervisor"} & set(shared), "that there is none on both sides is no condition"
    assert () not in shared.values()


def test_the_most_decisive_comes_first() -> None:
    """The processor, then the system, then the software, the threads, the variables, the suite."""
    run = make(
        [1.0],
        setting=Setting(threads=2),
        machine=machine_with(cpu="Xeon", governor="powersave", environment={"MALLOC_ARENA_MAX": "1"}),
        libraries=replace(LIBRARIES, versions={**LIBRARIES.versions, "torch": "2.9.1"}),
    )
    other = side_setting(replace(result_of(run), version="0.0.1"))
    names = ["CPU", "governor", "torch", "threads", "variable MALLOC_ARENA_MAX", "modelzoo"]
    assert [name for name, _, _ in differing(side(), other)] == names


def with_threads(threads: int, variable: str) -> dict[str, Any]:
    """A process with this setting, and this value of a variable."""
    return {"setting": Setting(threads=threads), "machine": machine_with(environment={"OMP_NUM_THREADS": variable})}


FAST_MATH = {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}
BOOTED = machine_with(memory=(32 << 30) - 12345, memory_limit=(32 << 30) - 12345, mhz=1200.0)
TORCH = {"torch": "2.10.0"}


DIFFERING = {
    "kernels reserve different amounts of memory, and the current clock is no condition": ({}, {"machine": BOOTED}),
    "what the suite applied is set, what it removed is not": (
        {"environment": EnvironmentChanges(removed=FAST_MATH)},
        {"environment": EnvironmentChanges(applied=FAST_MATH)},
    ),
    "what the suite keeps for itself": ({}, {"machine": machine_with(environment={"MODELZOO_CACHE": "/elsewhere"})}),
    "a variable that follows the threads of the setting": (with_threads(2, "2"), with_threads(4, "4")),
    "a variable that contradicts them": (with_threads(2, "2"), with_threads(2, "1")),
    "a package that is not listed need not be missing": ({"versions": {**TORCH, "numpy": "2.0"}}, {"versions": TORCH}),
    "a package without a version": tuple({"versions": {**TORCH, "numpy": version}} for version in ("2.0", "")),
    "torch without a version": ({"versions": TORCH, "libraries": None}, {"versions": {}, "libraries": None}),
    "what only one side knows comes last": ({}, {"machine": machine_with(governor=None, kernel="5.10")}),
}


def test_what_differs_is_named(approved: Callable[[str, str], None]) -> None:
    """With both values."""
    said = []
    for name, (base, other) in DIFFERING.items():
        values = "; ".join(f"{each}: {here} → {there}" for each, here, there in differing(side(**base), side(**other)))
        said.append(f"{name}: {values or 'nothing'}")
    approved("said/differences.txt", "".join(f"{each}\n" for each in said))


def test_processes_of_a_side_that_differ_show_all_their_values() -> None:
    """A side whose sessions ran under two kernels differs from one that ran under one of them."""
    two = [make([1.0], machine=machine_with(kernel=kernel)) for kernel in ("6.8", "6.1")]
    one = make([1.0], machine=machine_with())
    assert differing(side_setting(result_of(one)), side_setting(result_of(*two))) == [("kernel", "6.8", "6.1, 6.8")]


def test_rows_that_differ_alone_are_named() -> None:
    """A difference in one row names it; values that differ between rows only are shared all the same."""
    rows = {}
    for name, sha, threads in (("one", "a", 4), ("two", "b", 4), ("three", "c", 2)):
        weights = replace(WEIGHTS, sha256=sha)
        sides = [make([1.0], workload=name, weights=weights, setting=Setting(threads=t)) for t in (4, threads)]
        rows[f"{name} fp32"] = tuple(side_setting(result_of(run)) for run in sides)
    both = conditions(rows)
    assert both.differing == (Difference("threads", ("4",), ("2",), ("three fp32",)),)
    assert dict(both.shared)["weights"] == ()
    assert dict(both.shared)["batch"] == ("4",)


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


def read(report: RunReport) -> dict[str, str | None]:
    """All facts of a report."""
    found = [group for group in groups(report, replace(result_of(), commit="0123456789abcdef+")) if group is not None]
    return {name: " | ".join(sorted(values)) or None for group in found for name, values in group[0].items()}


OPENBLAS = Library("blas", "openblas", "0.3.29", "neoversen2", "pthreads", 8, "numpy", "libopenblas.so")
USE_CUDA = replace(BUILD, settings={"USE_CUDA": "OFF", "TORCH_VERSION": "2.10.0"})
GPU = Accelerator("cuda", 1, "NVIDIA H100", "9.0", memory=80 << 30)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"machine": machine_with(hypervisor=None, max_mhz=3500.0, mhz=1234.5, memory_limit=None)},
            {"hypervisor": "none", "max mhz": "3500", "mhz": None, "memory limit": None},
        ),
        ({"machine": machine_with(threads=Threads(2, 2, 2, 1.5, "0-1"))}, {"CPU quota": "1.5"}),
        # The version of torch, which it was exported with, stands beside that of the exporter.
        (exported(), {"engine": "onnxruntime", "onnxruntime": "1.23.2", "torch": "2.10.0", "exporter opset": "17"}),
        # Two commits with changed files need not have run the same code.
        ({}, {"engine": "torch", "exporter version": None, "commit of modelzoo": "0123456789ab+"}),
        # The size of a pool follows the threads, and is left out.
        (
            {"libraries": replace(LIBRARIES, build=USE_CUDA, loaded=(*LIBRARIES.loaded, OPENBLAS))},
            {
                "openblas of numpy": "0.3.29 neoversen2 pthreads",
                "torch's USE_CUDA": "OFF",
                "torch's TORCH_VERSION": None,
            },
        ),
        (
            {"accelerator": AcceleratorUse(GPU, locked_mhz=1200)},
            {"accelerator name": "NVIDIA H100", "accelerator memory": "80 GiB", "locked clock": "1200"},
        ),
        # Digests are shortened, and switches are divided into name and value.
        (
            {"setting": Setting(precision="bf16"), "inputs_digest": "0123456789abcdef", "switches": ("a=False", "b")},
            {"precision": "bf16=autocast", "inputs": "0123456789ab", "a": "False", "b": "set"},
        ),
    ],
)
def test_facts_are_text(changes: dict[str, Any], expected: dict[str, str | None]) -> None:
    """Of machine, software and work; what is not known, and what is momentary, is None."""
    run = make([1.0], **{"machine": machine_with(), "libraries": LIBRARIES, **changes})
    found = read(run.report)
    assert {name: found.get(name) for name in expected} == expected
