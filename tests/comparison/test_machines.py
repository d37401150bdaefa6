"""One machine or two, and what a machine, a core and a vCPU achieve."""

from __future__ import annotations

import math
from typing import Any

import pytest
from compared_rows import row_of, setting_of, side_of
from example_machine import SERVER, machine_with
from fake_runs import make

from modelzoo.comparison.machines import (
    Cost,
    IdleCores,
    OneDevice,
    Price,
    Rates,
    costs,
    parse_price,
    parse_price_list,
    prices_of,
    rates,
    row_rates,
    same_machine,
)
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.accelerator import Accelerator, AcceleratorUse
from modelzoo.records.machine import Threads
from modelzoo.results.refusals import Metric
from modelzoo.results.speed import Speed
from modelzoo.setting import Setting
from modelzoo.stats import Interval, Outcome, Verdict

ONE_SECOND = Interval(1.0, 0.5, 2.0)
NONE = Speed(None, Verdict(Outcome.NOT_COMPARABLE))


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
    """A row without a ratio has no level; one with it has both sides' rates."""
    side = setting_of(make([1.0]))
    row = row_of(side, side)
    found = row_rates(row, Metric.LATENCY)
    assert found is not None
    assert (found.unit, found.base.machine.value, found.other.machine.value) == ("rows", 8.0, 16.0)
    refused = replace(row, speed=NONE)
    assert row_rates(refused, Metric.LATENCY) is None


def test_an_unbounded_interval_stays_one() -> None:
    """A latency of at least 0 s is a throughput of any size."""
    side = setting_of(make([1.0]))
    found = rates(side, Interval(1.0, 0.0, math.inf), Metric.LATENCY)
    assert found is not None
    assert (found.machine.low, found.machine.high) == (0.0, math.inf)


LIST = """\
# on demand
name,per_hour,currency,date,region

c7g.2xlarge, 0.29, USD, 2026-11-01, us-east-1
"a, b",0.36,EUR,2026-10-01
"""
ARM = side_of("arm", make([1.0], machine=machine_with(instance_type="c7g.2xlarge")))
XEON = side_of("xeon=2", make([1.0], machine=machine_with(instance_type="c7i.2xlarge")))


def cost_of(base: float, other: float, threads: int = 8, spread: float = 0.1) -> Cost:
    """The cost of a row: batches of 4 in 2 s and 1 s on 8 cores, at these prices per hour."""
    run = make([1.0], machine=machine_with(), setting=Setting(threads=threads))
    (found,) = costs(
        [row_of(setting_of(run), setting_of(run), spread=spread)],
        Metric.LATENCY,
        Price("a", base),
        Price("b", other),
    )
    return found


def test_a_price_is_given_by_name() -> None:
    """The name may contain an equals sign."""
    assert parse_price("xeon=2=0.42") == Price("xeon=2", 0.42)
    assert parse_price("BASE=1e-3").per_hour == 0.001


@pytest.mark.parametrize("text", ["0.42", "=0.42", "a=", "a=free", "a=0", "a=-1", "a=nan", "a=inf", ""])
def test_what_is_no_price_is_refused(text: str) -> None:
    """In one line that says what a price looks like."""
    with pytest.raises(UsageError, match=r"--price must be NAME=PRICE .* or @FILE"):
        parse_price(text)


def test_a_list_has_names_prices_and_dates() -> None:
    """Comments, blank lines, quotes and further columns are allowed."""
    assert parse_price_list(LIST, "prices.csv") == (
        Price("c7g.2xlarge", 0.29, "USD", "2026-11-01", "prices.csv"),
        Price("a, b", 0.36, "EUR", "2026-10-01", "prices.csv"),
    )


HEAD = "name,per_hour,currency,date\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column name, per_hour, currency, date"),
        ("name,per_hour,currency\na,1,USD\n", "has no column date"),
        (HEAD + "a,1,USD,yesterday\n", "line 2 of prices.csv"),
        (HEAD + "# comment\na,1,USD\n", "line 3 of prices.csv"),
        (HEAD + "a,free,USD,2026-11-01\n", "line 2"),
        (HEAD + "a,-1,USD,2026-11-01\n", "line 2"),
        (HEAD + ",1,USD,2026-11-01\n", "line 2"),
        (HEAD + "a,1,,2026-11-01\n", "line 2"),
        (HEAD + "a,1,USD,2026-11-01\na,2,USD,2026-11-01\n", "more than one price for 'a'"),
    ],
)
def test_a_bad_list_is_refused(text: str, message: str) -> None:
    """With the line that is wrong."""
    with pytest.raises(UsageError, match=message):
        parse_price_list(text, "prices.csv")


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["arm=1"], "no price for 'xeon=2'; add --price 'xeon=2=PRICE'"),
        (["arm=1", "xeon=2=1", "yitian=1"], "'yitian' names no result of this comparison; they are 'arm', 'xeon=2'"),
        (["arm=1", "arm=2", "OTHER=1"], "more than once for the same name"),
    ],
)
def test_every_side_needs_its_price(given: list[str], message: str) -> None:
    """And every price a side."""
    with pytest.raises(UsageError, match=message):
        prices_of([parse_price(text) for text in given], [ARM, XEON])


def test_other_stands_for_one_side_only() -> None:
    """Of two other sides it would not say which."""
    with pytest.raises(UsageError, match="no price for 'xeon=2'"):
        prices_of([parse_price("BASE=1"), parse_price("OTHER=2")], [ARM, XEON, replace(XEON, name="third")])


def test_currencies_are_not_mixed() -> None:
    """Dollars and euros have no ratio; a price without a currency is taken to be in the same one."""
    dollars, euros = Price("arm", 1.0, "USD", "2026-11-01", "f"), Price("xeon=2", 1.0, "EUR", "2026-11-01", "f")
    with pytest.raises(UsageError, match="in EUR and USD"):
        prices_of([dollars, euros], [ARM, XEON])
    assert prices_of([dollars, Price("xeon=2", 2.0)], [ARM, XEON])[1] == Price("xeon=2", 2.0, "USD")


def test_the_cost_of_a_million() -> None:
    """4 items in 2 s for 0.72 per hour: 0.0002 per second, 0.0001 per item; the faster side costs half."""
    found = cost_of(0.72, 0.72)
    assert (found.base.value, found.other.value) == (pytest.approx(100.0), pytest.approx(50.0))
    assert (found.base.low, found.base.high) == (
        pytest.approx(100.0 * math.exp(-0.1)),
        pytest.approx(100.0 * math.exp(0.1)),
    )
    assert found.ratio.value == pytest.approx(2.0)
    assert found.ratio.high == pytest.approx(2.0 * math.exp(0.2)), "the interval of the row's ratio"
    assert (found.unit, found.base_extrapolated) == ("rows", None)


def test_idle_cores_are_paid_for_only_if_nothing_else_could_run() -> None:
    """On half the cores the machine could run two such processes: half the cost, called an extrapolation."""
    found = cost_of(0.72, 0.72, threads=4)
    assert found.base.value == pytest.approx(50.0)
    assert found.ratio.value == pytest.approx(2.0)
    assert found.base_extrapolated == IdleCores(4, 8)
    assert found.other_extrapolated == IdleCores(4, 8)


def test_only_compared_rows_cost_something() -> None:
    """Without a level there is no cost."""
    side = setting_of(make([1.0]))
    refused = replace(row_of(side, side), speed=NONE)
    assert costs([refused], Metric.LATENCY, Price("a", 1.0), Price("b", 1.0)) == ()


def test_memory_and_the_first_call_have_no_price() -> None:
    """A price per hour buys throughput."""
    with pytest.raises(UsageError, match="--price needs --metric latency or throughput, not memory"):
        costs([], Metric.MEMORY, Price("a", 1.0), Price("b", 1.0))
