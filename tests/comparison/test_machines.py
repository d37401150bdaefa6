"""One machine or two, and what a machine, a core and a vCPU achieve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from example_machine import SERVER, machine_with
from fake_runs import make, result_of
from proven_results import row_of, side_of, side_setting

from modelzoo.comparison.machines import (
    Cost,
    IdleCores,
    Price,
    Rates,
    costs,
    parse_price,
    parse_price_list,
    prices_of,
    rates,
    same_machine,
)
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.equipment import Accelerator, AcceleratorUse
from modelzoo.records.machine import Threads
from modelzoo.results.refusals import Metric
from modelzoo.setting import Setting
from modelzoo.stats import Interval

ONE_SECOND = Interval(1.0, 0.5, 2.0)


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
    side = side_setting(result_of(make([1.0], setting=setting, machine=machine_with(threads=limits, **machine))))
    return rates(side, ONE_SECOND, metric)


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


def test_the_accelerators_must_be_of_one_product() -> None:
    """Another GPU in the same host is another machine, its index and its driver do not decide; failures have none."""
    devices = Accelerator("cuda", 0, "A", driver="550"), Accelerator("cuda", 1, "A"), Accelerator("cuda", 0, "B")
    used = map(AcceleratorUse, devices)
    base, alike, other = (side_of("a", make([1.0], machine=SERVER, accelerator=each)) for each in used)
    without = side_of("c", make([1.0], machine=SERVER))
    assert [same_machine(base, each) for each in (alike, other, without)] == [True, False, False]
    failed = side_of("a", make(None, error="no"))
    assert not same_machine(failed, failed)


SMT = {"logical": 16, "threads_per_core": 2, "architecture": "x86_64"}
KVM = {"hypervisor": "KVM", "architecture": "x86_64"}


@pytest.mark.parametrize(
    ("changes", "machine", "core", "vcpu", "extrapolated"),
    [
        ({}, 16.0, 2.0, 2.0, None),
        # Four such processes would fit, if they did not slow each other down.
        ({"threads": 2}, 64.0, 8.0, 8.0, IdleCores(2, 8)),
        # By affinity, by quota, or on both hardware threads of each.
        ({"limits": Threads(4, 4, 4, None)}, 32.0, 4.0, 4.0, IdleCores(4, 8)),
        ({"limits": Threads(4, 8, 8, 4.0)}, 32.0, 4.0, 4.0, IdleCores(4, 8)),
        ({"limits": Threads(4, 4, 8, None)}, 32.0, 4.0, 4.0, IdleCores(4, 8)),
        # Threads on all cores use the whole machine, with SMT or without.
        ({"threads": 8, **SMT}, 16.0, 2.0, 1.0, None),
        ({"threads": 16, **SMT}, 16.0, 2.0, 1.0, None),
        # The cores of a guest are vCPUs: on x86, two of them usually share one, and the guest may not see it.
        ({**KVM, "vcpus_per_core": 2}, 16.0, 4.0, 2.0, None),
        ({**KVM, "vcpus_per_core": None}, 16.0, 4.0, 2.0, None),
        ({**KVM, "architecture": "aarch64", "vcpus_per_core": 1}, 16.0, 2.0, 2.0, None),
        ({**KVM, "architecture": "aarch64", "vcpus_per_core": None}, 16.0, 2.0, 2.0, None),
        ({"device": "cuda"}, 16.0, None, None, "cuda"),
        ({"metric": Metric.THROUGHPUT}, 1.0, 0.125, 0.125, None),
    ],
)
def test_what_a_machine_a_core_and_a_vcpu_achieve(
    changes: dict[str, Any], machine: float, core: float | None, vcpu: float | None, extrapolated: object
) -> None:
    """16 items in one second on 8 cores without SMT; or 1 item per second."""
    found = rates_of(**changes)
    assert (found.core and found.core.value, found.vcpu and found.vcpu.value) == (core, vcpu)
    assert (found.machine.value, found.extrapolated) == (machine, extrapolated)
    assert (found.assumed is not None) is ("hypervisor" in changes and changes["vcpus_per_core"] is None)


def test_the_bounds_of_a_latency_change_places() -> None:
    """An unbounded interval stays one: a latency of at least 0 s is a throughput of any size."""
    found = rates_of()
    assert (found.machine.low, found.machine.high) == (8.0, 32.0)
    found = rates(side_setting(result_of(make([1.0]))), Interval(1.0, 0.0, math.inf), Metric.LATENCY)
    assert (found.machine.low, found.machine.high) == (0.0, math.inf)
    assert rates_of(metric=Metric.MEMORY) is rates_of(metric=Metric.COLD_START) is None


LIST = """\
# on demand
name,per_hour,currency,date,region

c7g.2xlarge, 0.29, USD, 2026-11-01, us-east-1
"a, b",0.36,EUR,2026-10-01
"""
ARM = side_of("arm", make([1.0], machine=machine_with(instance_type="c7g.2xlarge")))
XEON = side_of("xeon=2", make([1.0], machine=machine_with(instance_type="c7i.2xlarge")))


def cost_of(threads: int) -> Cost:
    """The cost of a row: batches of 4 in 2 s and 1 s on 8 cores, for 0.72 per hour."""
    run = make([1.0], machine=machine_with(), setting=Setting(threads=threads))
    row = row_of(side_setting(result_of(run)), side_setting(result_of(run)), spread=0.1)
    (found,) = costs([row], Metric.LATENCY, Price("a", 0.72), Price("b", 0.72))
    return found


def test_a_price_is_given_by_name() -> None:
    """The name may contain an equals sign."""
    assert parse_price("xeon=2=0.42") == Price("xeon=2", 0.42)


def test_what_is_no_price_is_refused(approved: Callable[[str, str], None]) -> None:
    """In one line that says what a price looks like, which line of a list is wrong, or which side has no price."""
    texts = ("0.42", "=0.42", "a=", "a=free", "a=0", "a=-1", "a=nan", "a=inf", "")
    rows = (
        *("a,1,USD,yesterday", "# comment\na,1,USD", "a,free,USD,2026-11-01", "a,-1,USD,2026-11-01"),
        *(",1,USD,2026-11-01", "a,1,,2026-11-01", "a,1,USD,2026-11-01\na,2,USD,2026-11-01"),
    )
    lists = ("", "name,per_hour,currency\na,1,USD\n", *(f"name,per_hour,currency,date\n{each}\n" for each in rows))
    dollars, third = replace(EUROS, name="arm", currency="USD"), replace(XEON, name="third")
    given = (
        ([Price("arm", 1)], [ARM, XEON]),
        ([Price("arm", 1), Price("xeon=2", 1), Price("b", 1)], [ARM, XEON]),
        ([Price("arm", 1), Price("arm", 2), Price("OTHER", 1)], [ARM, XEON]),
        ([Price("BASE", 1), Price("OTHER", 2)], [ARM, XEON, third]),  # of two other sides, OTHER would not say which
        ([dollars, EUROS], [ARM, XEON]),
    )
    said = [refused(parse_price, each) for each in texts]
    said += [refused(parse_price_list, each, "prices.csv") for each in lists]
    said += [refused(prices_of, *each) for each in given]
    approved("said/prices.txt", "".join(f"{each}\n" for each in said))


def refused(call: Callable[..., object], *arguments: object) -> str:
    """The error of the user."""
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_list_has_names_prices_and_dates() -> None:
    """Comments, blank lines, quotes and further columns are allowed."""
    assert parse_price_list(LIST, "prices.csv") == (
        Price("c7g.2xlarge", 0.29, "USD", "2026-11-01", "prices.csv"),
        Price("a, b", 0.36, "EUR", "2026-10-01", "prices.csv"),
    )


def test_a_price_belongs_to_a_side_by_name_role_or_instance_type() -> None:
    """The most specific counts: what was given by itself replaces what a list says."""
    listed = parse_price_list(LIST, "prices.csv")
    own = parse_price("xeon=2=0.36")
    assert prices_of([*listed, own], [ARM, XEON]) == (listed[0], replace(own, currency="USD"))
    roles = (parse_price("BASE=0.4"), parse_price("OTHER=0.3"))
    assert prices_of([*listed, *roles], [ARM, XEON]) == roles
    by_name = parse_price("arm=0.5")
    assert prices_of([by_name, roles[1]], [ARM, XEON]) == (by_name, roles[1])
    replaced = parse_price("c7g.2xlarge=0.2")
    assert prices_of([*listed, replaced, own], [ARM, XEON])[0] == replaced, "and it may be in another currency"


EUROS = Price("xeon=2", 1.0, "EUR", "2026-11-01", "f")


def test_the_cost_of_a_million() -> None:
    """4 items in 2 s for 0.72 per hour: 0.0002 per second, 0.0001 per item; the faster side costs half.

    On half the cores the machine could run two such processes: half the cost, called an extrapolation.
    """
    found, half = cost_of(threads=8), cost_of(threads=4)
    assert (found.base.value, found.other.value) == (pytest.approx(100.0), pytest.approx(50.0))
    assert (found.base.low, found.base.high) == pytest.approx((100.0 * math.exp(-0.1), 100.0 * math.exp(0.1)))
    assert (found.ratio.value, found.ratio.high) == pytest.approx((2.0, 2.0 * math.exp(0.2))), "that of the row"
    assert (found.unit, found.base_extrapolated) == ("rows", None)
    assert (half.base.value, half.ratio.value) == (pytest.approx(50.0), pytest.approx(2.0))
    assert half.base_extrapolated == half.other_extrapolated == IdleCores(4, 8)
