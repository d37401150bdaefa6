"""Whether two sides ran on one machine, what a machine, a core and a vCPU achieve, and what that costs. Pure."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import date
from string import ascii_uppercase

import msgspec

from modelzoo import stats
from modelzoo.comparison.estimate import Row, Side, skewness
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.machine import fingerprint
from modelzoo.records.race import Throughput
from modelzoo.results.counting import per_million
from modelzoo.results.refusals import RATED, Metric, SideSetting
from modelzoo.stats import Basis, Outcome

VCPUS_PER_CORE = {"x86_64": 2, "aarch64": 1}
"""How many vCPUs are assumed to share a physical core if the virtual machine does not show it.

A vCPU is usually one of the two hardware threads of an x86 core, and a whole ARM core (AWS, "Amazon EC2 User Guide",
"Optimize CPU options", says so of its instances). Some instances have SMT switched off, so this is an assumption."""


class IdleCores(msgspec.Struct, frozen=True):
    """A run used ``used`` of ``cores`` cores; the rate is that of as many such runs as the cores allow."""

    used: float
    cores: int


Extrapolation = IdleCores | str
"""What the rate of a whole machine takes for granted. A text names the accelerator that a run used; the
machine is taken to have no other one like it."""


class AssumedCores(msgspec.Struct, frozen=True):
    """The virtual machine does not show how many vCPUs share a core; so many is usual for this architecture."""

    vcpus: int
    architecture: str


class Rates(msgspec.Struct, frozen=True):
    """The throughput of one side of a row, in items per second, with 95 % intervals.

    Attributes:
        machine: of the whole machine.
        core: of each physical core; ``None`` if the model does not run on the CPU.
        vcpu: of each logical CPU; ``None`` likewise.
        extrapolated: what is assumed because the run did not use the whole machine; ``None`` if it did.
        assumed: what is assumed of the machine's physical cores; ``None`` if their number is known.
    """

    machine: stats.Interval
    core: stats.Interval | None
    vcpu: stats.Interval | None
    extrapolated: Extrapolation | None = None
    assumed: AssumedCores | None = None


class RowRates(msgspec.Struct, frozen=True):
    """The throughput of both sides of a row; ``unit`` is what is counted (``images`` …)."""

    workload: str
    label: str
    unit: str
    base: Rates
    other: Rates


def machines_of(side: Side) -> frozenset[str]:
    """Return the fingerprints of the machines that ``side`` was measured on.

    They are computed from the recorded facts, also for results that hold a fingerprint: another version of the suite
    may have computed that in another way.
    """
    runs = (run for stored in side.results for run in stored.result.runs)
    return frozenset(fingerprint(run.report.provenance.machine) for run in runs if run.report is not None)


def same_machine(base: Side, other: Side) -> bool:
    """Return whether both sides ran on one machine, as far as what decides its speed says.

    That is ``modelzoo.records.machine.fingerprint``: processor, cores, caches, memory, frequency limits, governor, and
    the CPUs and the memory that the processes could use. The current frequency is not part of it. Accelerators that
    were used must be of the same product.
    """
    machines, accelerators = machines_of(base), _accelerators(base)
    same = accelerators == _accelerators(other) and len(accelerators) <= 1
    return same and len(machines) == 1 and machines == machines_of(other)


def _accelerators(side: Side) -> frozenset[tuple[str, int | None]]:
    """Products and memory of the accelerators that ``side`` used."""
    runs = (run for stored in side.results for run in stored.result.runs)
    used = (run.report.accelerator for run in runs if run.report is not None)
    return frozenset((each.device.name, each.device.memory) for each in used if each is not None)


def row_rates(row: Row, metric: Metric) -> RowRates | None:
    """Return what both sides of ``row`` achieve per machine, core and vCPU.

    ``None`` if the sides were not compared, or by a metric that says nothing about throughput.
    """
    if row.ratio is None:
        return None
    sides = ((row.base, row.base_value), (row.other, row.other_value))
    found = [rates(side, value, metric) for side, value in sides if side is not None and value is not None]
    base, other = found if len(found) == len(sides) else (None, None)
    if base is None or other is None or row.base is None:
        return None
    unit = row.base.served[0].unit if row.base.served else row.base.reports[0].unit
    return RowRates(row.workload, row.setting, unit, base, other)


def rates(side: SideSetting, items: stats.Interval, metric: Metric) -> Rates | None:
    """Return what one side achieves; ``None`` if no run of it has a report, or ``metric`` is not one of ``RATED``.

    A run that leaves cores idle is extrapolated to the whole machine: as many processes at the same time as its cores
    allow, each as fast as the one that was measured.
    """
    report = next(iter(side.reports), None)
    if report is None or metric not in RATED:
        return None
    if metric is Metric.LATENCY:
        items = multiplied(stats.inverse(items, report.setting.batch), 1 / skewness(side))
    if report.setting.device != "cpu":
        return Rates(items, None, None, extrapolated=report.setting.device)
    machine, limits = report.provenance.machine, report.provenance.machine.threads
    # The cores that a run could keep busy: its threads (instances: the most that were tried), unless its CPUs or its
    # quota are fewer. Cores are counted as the system shows them; in a virtual machine they may be halves of physical
    # ones.
    threads = min((each.cores for each in side.served), default=report.setting.threads)
    used = min(threads, limits.physical_cores, limits.quota or math.inf)
    whole = items if used >= machine.cores else multiplied(items, machine.cores / used)
    cores, assumed = float(machine.cores), None
    if machine.hypervisor is not None:
        vcpus = machine.vcpus_per_core
        if vcpus is None:
            vcpus = VCPUS_PER_CORE.get(machine.architecture, 1)
            assumed = AssumedCores(vcpus, machine.architecture)
        cores = machine.logical / vcpus
    return Rates(
        machine=whole,
        core=multiplied(whole, 1 / cores),
        vcpu=multiplied(whole, 1 / machine.logical),
        extrapolated=IdleCores(used, machine.cores) if used < machine.cores else None,
        assumed=assumed,
    )


def multiplied(interval: stats.Interval, factor: float) -> stats.Interval:
    """Return ``interval`` times a positive number."""
    return stats.Interval(interval.value * factor, interval.low * factor, interval.high * factor)


COLUMNS = ("name", "per_hour", "currency", "date")
"""The columns of a price list, in any order; others are ignored."""
ROLES = ("BASE", "OTHER")
"""Names that stand for the baseline, and for the other side if there is only one."""


class Price(msgspec.Struct, frozen=True):
    """What a machine costs.

    Attributes:
        name: of a side, or of a type of cloud instance.
        per_hour: for the whole machine.
        currency: as given; may be empty.
        date: when the price was valid, ISO 8601; empty if it was given without one.
        source: where the price is from: ``--price`` or the name of a file.
    """

    name: str
    per_hour: float
    currency: str = ""
    date: str = ""
    source: str = "--price"


class Cost(msgspec.Struct, frozen=True):
    """What a million items cost on both sides of a row, in the currency of the prices, with 95 % intervals.

    Attributes:
        workload: of the row.
        label: of the row.
        unit: what is counted: items of a batch (``images`` …), or new tokens.
        base: on the baseline's machine.
        other: on the other side's.
        ratio: how many times cheaper the other side is; like the row's ratio, its interval contains what changes
            between sessions.
        base_price: of the baseline's machine.
        other_price: of the other side's.
        base_extrapolated: what is assumed because the baseline did not use the whole machine; ``None`` if it did.
        other_extrapolated: likewise.
        outcome: the verdict, corrected for all rows; ``None`` unless both machines as a whole were measured.
        is_assumed: whether it rests on an assumption of how much days differ.
        is_unproven: whether it is not proven that both sides ran in their precision.
        alone: ``ratio`` of these sessions alone; ``None`` without a verdict, or if the row has none.
        alone_outcome: the verdict on that, as ``outcome``.
    """

    workload: str
    label: str
    unit: str
    base: stats.Interval
    other: stats.Interval
    ratio: stats.Interval
    base_price: Price
    other_price: Price
    base_extrapolated: Extrapolation | None = None
    other_extrapolated: Extrapolation | None = None
    outcome: Outcome | None = None
    is_assumed: bool = False
    is_unproven: bool = False
    alone: stats.Interval | None = None
    alone_outcome: Outcome | None = None


def parse_price(text: str) -> Price:
    """Return the price that ``NAME=PRICE`` gives; the letters of a currency may follow: ``arm=1.10CNY``.

    Raises:
        UsageError: it has another form, or the price is no number over 0.
    """
    name, separator, value = text.rpartition("=")
    amount = value.rstrip(ascii_uppercase)
    per_hour = _number(amount)
    if not separator or not name.strip() or per_hour is None:
        raise UsageError(f"--price must be NAME=PRICE with a price per hour over 0, or @FILE, not {text!r}")
    return Price(name.strip(), per_hour, value[len(amount) :])


def parse_price_list(text: str, source: str) -> tuple[Price, ...]:
    """Return the prices of a price list.

    Args:
        text: the content of the file.
        source: its name, for messages.

    Raises:
        UsageError: it is no CSV, a column is missing, a row is incomplete or no price, or a name occurs twice.
    """
    kept = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.lstrip()[:1] not in ("", "#")]
    try:
        rows = list(csv.reader([line for _, line in kept], skipinitialspace=True))
    except csv.Error as error:
        raise UsageError(f"--price: {source} is no CSV file: {error}") from error
    titles = [title.strip() for title in rows[0]] if rows else []
    missing = [name for name in COLUMNS if name not in titles]
    if missing:
        raise UsageError(f"--price: {source} has no column {', '.join(missing)}; its first line must name the columns")
    prices: dict[str, Price] = {}
    for (number, _), row in zip(kept[1:], rows[1:]):
        cells = dict(zip(titles, (cell.strip() for cell in row)))
        name, currency, per_hour = cells.get("name"), cells.get("currency"), _number(cells.get("per_hour", ""))
        try:
            day = date.fromisoformat(cells.get("date", "")).isoformat()
        except ValueError:
            day = ""
        if not name or not currency or per_hour is None or not day:
            raise UsageError(
                f"--price: line {number} of {source} must hold a name, a price per hour over 0, "
                "a currency and a date such as 2026-11-01"
            )
        if name in prices:
            raise UsageError(f"--price: {source} has more than one price for {name!r}")
        prices[name] = Price(name, per_hour, currency, day, source)
    return tuple(prices.values())


def prices_of(prices: Sequence[Price], sides: Sequence[Side]) -> tuple[Price, ...]:
    """Return the price of each side, the baseline first.

    A price belongs to a side by the side's name, by ``BASE`` or ``OTHER``, or by the type of cloud instance that the
    side was measured on, in this order; else it is the one that ``modelzoo throughput`` was given. A price without a
    currency is taken to be in that of the others.

    Returns:
        nothing if no prices were given, unless those of all sides are stored, in one currency.

    Raises:
        UsageError: a side has no price, a price that was given by itself belongs to no side or was given twice, or the
            currencies differ.
    """
    stored = [_stored_price(side) for side in sides]
    if not prices:
        kept = [price for price in stored if price is not None]
        return tuple(kept) if len(kept) == len(sides) and len({each.currency for each in kept}) == 1 else ()
    given = [price.name for price in prices if not price.date]
    if len(set(given)) < len(given):
        raise UsageError("--price was given more than once for the same name")
    # What is given by itself replaces what a list says.
    by_name = {price.name: price for price in sorted(prices, key=lambda price: not price.date)}
    found = []
    roles = ROLES if len(sides) == len(ROLES) else (ROLES[0], *[""] * len(sides))
    for side, role, own in zip(sides, roles, stored):
        reports = (run.report for each in side.results for run in each.result.runs)
        instances = sorted({each.provenance.machine.instance_type or "" for each in reports if each is not None})
        names = [side.name, role, *(instances if len(instances) == 1 else [])]
        price = next((by_name[name] for name in names if name and name in by_name), own)
        if price is None:
            raise UsageError(f"--price: there is no price for {side.name!r}; add --price '{side.name}=PRICE'")
        found.append(price)
    unused = [price for price in prices if not price.date and price not in found]
    if unused:
        known = ", ".join(repr(side.name) for side in sides)
        raise UsageError(f"--price: {unused[0].name!r} names no result of this comparison; they are {known}")
    currencies = sorted({price.currency for price in found if price.currency})
    if len(currencies) > 1:
        raise UsageError(f"--price: the prices are in {' and '.join(currencies)}; give them in one currency")
    return tuple(replace(price, currency="".join(currencies)) for price in found)


def _stored_price(side: Side) -> Price | None:
    """The price that ``modelzoo throughput`` was given, in the latest session; ``None`` if none."""
    payload = side.results[-1].result.payload
    if not isinstance(payload, Throughput) or (given := payload.price) is None:
        return None
    return Price(side.name, given.per_hour, given.currency, given.date, given.source or "stored with the result")


def costs(rows: Sequence[Row], metric: Metric, base: Price, other: Price) -> tuple[Cost, ...]:
    """Return what a million items cost in each of the rows that were compared.

    A verdict follows only from what instances on the whole of both machines served: a single process does not show what
    several of them achieve. The ratio of costs is that of the throughput times that of the prices, which are known, so
    that its logarithm has the same error.

    Raises:
        UsageError: ``metric`` says nothing about throughput.
    """
    if metric not in RATED:
        raise UsageError(f"--price needs --metric {' or '.join(map(str, RATED))}, not {metric}")
    found, in_days, in_sessions = list[Cost](), dict[int, stats.Ratio](), dict[int, stats.Ratio]()
    for row in rows:
        rates, compared = row_rates(row, metric), row.speed.found
        if rates is None or compared is None or row.base is None:
            continue
        base_cost = per_million(base.per_hour, rates.base.machine)
        other_cost = per_million(other.per_hour, rates.other.machine)
        # The interval of the ratio contains what changes between sessions; the costs' own intervals do not.
        factor = base_cost.value / other_cost.value / compared.interval.value
        if row.base.served and not rates.base.extrapolated and not rates.other.extrapolated:
            in_days[len(found)] = _times(compared, factor)
            if row.alone is not None and row.alone.found is not None:
                in_sessions[len(found)] = _times(row.alone.found, factor)
        found.append(
            Cost(
                workload=row.workload,
                label=row.setting,
                unit=rates.unit,
                base=base_cost,
                other=other_cost,
                ratio=multiplied(compared.interval, factor),
                base_price=base,
                other_price=other,
                base_extrapolated=rates.base.extrapolated,
                other_extrapolated=rates.other.extrapolated,
                is_assumed=compared.basis is Basis.ASSUMED,
                is_unproven=row.speed.is_unproven,
            )
        )
    for index, verdict in zip(in_days, stats.verdicts(list(in_days.values()))):
        found[index] = replace(found[index], outcome=IN_MONEY.get(verdict.outcome, verdict.outcome))
    for (index, ratio), verdict in zip(in_sessions.items(), stats.verdicts(list(in_sessions.values()))):
        outcome = IN_MONEY.get(verdict.outcome, verdict.outcome)
        found[index] = replace(found[index], alone=ratio.interval, alone_outcome=outcome)
    return tuple(found)


IN_MONEY = {Outcome.FASTER: Outcome.CHEAPER, Outcome.SLOWER: Outcome.DEARER}
"""What a verdict on ratios of costs is called."""


def _times(found: stats.Ratio, factor: float) -> stats.Ratio:
    """A ratio of stored results, of which there is one look, times what is known without error."""
    (look,) = found.seen
    log = replace(look.ratio, value=look.ratio.value + math.log(factor))
    return stats.ratio_of(log, found.rounds, found.spreads)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
