"""What a million inferences cost."""

from __future__ import annotations

import math

import pytest
from compared_rows import row_of, setting_of, side_of
from example_machine import machine_with
from fake_runs import make
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.comparison.machines import Cost, IdleCores, Price, costs, parse_price, parse_price_list, prices_of
from modelzoo.comparison.model import Metric
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.setting import Setting
from modelzoo.stats import Outcome

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
        (["arm=1", "xeon=2=1", "yitian=1"], "'yitian' is no side of this comparison; its sides are 'arm', 'xeon=2'"),
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
    refused = replace(row_of(side, side), estimate=None, outcome=Outcome.NOT_COMPARABLE)
    assert costs([refused], Metric.LATENCY, Price("a", 1.0), Price("b", 1.0)) == ()


def test_memory_and_the_first_call_have_no_price() -> None:
    """A price per hour buys throughput."""
    with pytest.raises(UsageError, match="--price needs --metric latency or throughput, not memory"):
        costs([], Metric.MEMORY, Price("a", 1.0), Price("b", 1.0))


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 2.0), st.integers(1, 8))
def test_cost_follows_the_price(base: float, other: float, spread: float, threads: int) -> None:
    """Twice the price is twice the cost, and the ratio is that of the costs, whatever the threads."""
    found, twice = cost_of(base, other, threads, spread), cost_of(2 * base, other, threads, spread)
    assert twice.base.value == pytest.approx(2 * found.base.value)
    assert found.ratio.value == pytest.approx(found.base.value / found.other.value)
    assert twice.ratio.low == pytest.approx(2 * found.ratio.low)
    assert found.base.low <= found.base.value <= found.base.high
