"""One machine or two, and what a machine, a core and a vCPU achieve."""

from __future__ import annotations

import math
from typing import Any

import pytest
from compared_rows import row_of, setting_of, side_of
from example_machine import SERVER, machine_with
from fake_runs import make
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.comparison.machines import (
    IdleCores,
    OneDevice,
    Rates,
    multiplied,
    rates,
    row_rates,
    same_machine,
)
from modelzoo.comparison.model import Measured, Metric
from modelzoo.frozen import replace
from modelzoo.records.accelerator import Accelerator, AcceleratorUse
from modelzoo.records.machine import Threads
from modelzoo.setting import Setting
from modelzoo.stats import Interval, Outcome

ONE_SECOND = Measured(Interval(1.0, 0.5, 2.0), 1, 3)


def rates_of(
    threads: int = 8,
    *,
    device: str = "cpu",
    metric: Metric = Metric.LATENCY,
    limits: Threads = SERVER.threads,
    **machine: Any,
) -> Rates | None:
    """What a run of 16 items in one second achieves on a server with 8 cores and these changes."""
    setting = Setting(threads=threads, batch=16, device=device)
    side = setting_of(make([1.0], setting=setting, machine=machine_with(threads=limits, **machine)))
    return rates(side, ONE_SECOND, metric)


def values(found: Rates | None) -> tuple[float, float | None, float | None]:
    """The throughput of the machine, of a core and of a vCPU."""
    assert found is not None
    return (
        found.machine.value,
        found.core and found.core.value,
        found.vcpu and found.vcpu.value,
    )


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"mhz": 1000.0}, True),
        ({"kernel": "5.10", "environment": {"OMP_NUM_THREADS": "2"}}, True),
        ({"max_mhz": 3000.0}, False),
        ({"cores": 4}, False),
        ({"governor": "powersave"}, False),
        ({"threads": Threads(4, 4, 4, None, "0-3")}, False),
    ],
)
def test_a_machine_is_known_by_what_decides_its_speed(changes: dict[str, Any], is_same: bool) -> None:
    """Not by its clock of the moment, nor by its software; the stored fingerprint may be of an older version."""
    base = side_of("a", make([1.0], machine=SERVER, fingerprint="of an older version"))
    other = side_of("b", make([1.0], machine=machine_with(**changes), fingerprint=None))
    assert same_machine(base, other) is is_same


@pytest.mark.parametrize(
    ("device", "is_same"),
    [
        (Accelerator("cuda", 1, "A", driver="551"), True),
        (Accelerator("cuda", 0, "B"), False),
        (None, False),
    ],
)
def test_the_accelerators_must_be_of_one_product(device: Accelerator | None, is_same: bool) -> None:
    """Another GPU in the same host is another machine; its index and its driver do not decide."""
    used = AcceleratorUse(Accelerator("cuda", 0, "A", "9.0", "550"))
    base = side_of("a", make([1.0], machine=SERVER, accelerator=used))
    other = side_of("b", make([1.0], machine=SERVER, accelerator=device and AcceleratorUse(device)))
    assert same_machine(base, other) is is_same


def test_a_side_without_a_finished_run_has_no_machine() -> None:
    """Two failures did not run on the same machine as far as anybody knows."""
    failed = side_of("a", make(None, error="no"))
    assert not same_machine(failed, failed)


def test_a_run_on_all_cores_is_the_throughput_of_the_machine() -> None:
    """16 items per second on 8 cores without SMT; the bounds of the latency change places."""
    found = rates_of()
    assert values(found) == (16.0, 2.0, 2.0)
    assert found is not None
    assert (found.machine.low, found.machine.high) == (8.0, 32.0)
    assert (found.extrapolated, found.assumed) == (None, None)


def test_a_run_that_leaves_cores_idle_is_extrapolated() -> None:
    """Two of 8 cores: four such processes would fit, if they did not slow each other down."""
    found = rates_of(threads=2)
    assert values(found) == (64.0, 8.0, 8.0)
    assert found is not None
    assert found.extrapolated == IdleCores(2, 8)


@pytest.mark.parametrize("limits", [Threads(4, 4, 4, None), Threads(4, 8, 8, 4.0), Threads(4, 4, 8, None)])
def test_limits_leave_cores_idle_whatever_the_threads(limits: Threads) -> None:
    """Eight threads on four cores, by affinity, by quota, or on both hardware threads of each."""
    found = rates_of(limits=limits)
    assert values(found) == (32.0, 4.0, 4.0)
    assert found is not None
    assert found.extrapolated == IdleCores(4, 8)


def test_smt_makes_two_vcpus_of_a_core() -> None:
    """On bare metal the cores are known; threads on all of them use the whole machine, with SMT or without."""
    smt = {"logical": 16, "threads_per_core": 2, "architecture": "x86_64"}
    assert values(rates_of(threads=8, **smt)) == values(rates_of(threads=16, **smt)) == (16.0, 2.0, 1.0)


@pytest.mark.parametrize(
    ("architecture", "vcpus_per_core", "core", "is_assumed"),
    [("x86_64", 2, 4.0, False), ("x86_64", None, 4.0, True), ("aarch64", 1, 2.0, False), ("aarch64", None, 2.0, True)],
)
def test_the_cores_of_a_virtual_machine_may_be_halves(
    architecture: str, vcpus_per_core: int | None, core: float, is_assumed: bool
) -> None:
    """Its 8 cores are vCPUs: on x86, two of them usually share a physical core, and the guest may not see it."""
    found = rates_of(hypervisor="KVM", architecture=architecture, vcpus_per_core=vcpus_per_core)
    assert values(found) == (16.0, core, 2.0)
    assert found is not None
    assert (found.assumed is not None) is is_assumed


def test_an_accelerator_has_no_cores() -> None:
    """Nothing per core, and how many devices the machine has is not recorded."""
    found = rates_of(device="cuda")
    assert values(found) == (16.0, None, None)
    assert found is not None
    assert found.extrapolated == OneDevice("cuda")


def test_throughput_is_taken_as_it_is() -> None:
    """It already counts items per second."""
    assert values(rates_of(metric=Metric.THROUGHPUT)) == (1.0, 0.125, 0.125)


@pytest.mark.parametrize("metric", [Metric.COLD_START, Metric.MEMORY])
def test_other_metrics_say_nothing_about_throughput(metric: Metric) -> None:
    """Neither memory nor the first call."""
    assert rates_of(metric=metric) is None


def test_only_compared_rows_have_rates() -> None:
    """A row without an estimate has no level; one with it has both sides' rates."""
    side = setting_of(make([1.0]))
    row = row_of(side, side)
    found = row_rates(row, Metric.LATENCY)
    assert found is not None
    assert (found.unit, found.base.machine.value, found.other.machine.value) == ("rows", 8.0, 16.0)
    refused = replace(row, estimate=None, outcome=Outcome.NOT_COMPARABLE)
    assert row_rates(refused, Metric.LATENCY) is None


def test_an_unbounded_interval_stays_one() -> None:
    """A latency of at least 0 s is a throughput of any size."""
    side = setting_of(make([1.0]))
    found = rates(side, Measured(Interval(1.0, 0.0, math.inf), 1, 1), Metric.LATENCY)
    assert found is not None
    assert (found.machine.low, found.machine.high) == (0.0, math.inf)


@given(st.integers(1, 8), st.floats(1e-3, 1e3))
def test_the_parts_add_up_to_the_machine(threads: int, scale: float) -> None:
    """All cores, and all vCPUs, together achieve what the machine achieves, however few the run used."""
    found = rates_of(threads=threads, logical=16, threads_per_core=2, architecture="x86_64")
    assert found is not None and found.core is not None and found.vcpu is not None
    assert 8 * found.core.value == pytest.approx(found.machine.value)
    assert 16 * found.vcpu.value == pytest.approx(found.machine.value)
    assert multiplied(found.machine, scale).half_width == pytest.approx(found.machine.half_width)
