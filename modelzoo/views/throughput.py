"""What many instances achieved, for people: the table, the answer in a sentence, notes. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from modelzoo import stats
from modelzoo.comparison.estimate import Row as ComparedRow
from modelzoo.document import Block, Column, Table, Tone, columns_of, first_line, named
from modelzoo.formatting import MISSING, apart, counted, cpus, seconds, share, significant, without_options
from modelzoo.frozen import replace
from modelzoo.records.machine import quiet_limit
from modelzoo.records.race import Exclusion, ExclusionKind, Smt, Throughput
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import throughput as results
from modelzoo.results.counting import LEAST, NO_WINDOW, RoundError
from modelzoo.results.proof import InstanceKernels, InstancePlacement, instance_kernels, instance_placement
from modelzoo.results.throughput import Recommendation, Row
from modelzoo.stats import Outcome, race
from modelzoo.views.speed import PERCENTILES, UNPROVEN, is_qualified, outcome_text, ratio, reason, rounded_value, within

_OWN = {"--instances", "--cores-per-instance", "--batch", "--smt", "--slo", "--json", "--plot", "--price"}
_OWN |= {"--rounds", "--seconds", "--output", "-o"}
_OWN |= {"--json-dir", "--scheduler"}  # of a fleet
"""Options of the call that do not decide the setting, each with a value."""
_NAMED = 4
"""Stragglers that are named one by one."""
_COUNTING = "counting: how far the count of batches may be off, ± 1 per instance"


def document(result: Result) -> list[Block]:
    """Return the answer, the configurations, the confirmation, and what qualifies them."""
    found, rows, recommended = results.of(result), results.rows(result), results.recommendation(result)
    tone = Tone.BAD
    if recommended is not None:
        best = recommended.row
        is_narrow = best.throughput is not None and best.throughput.half_width < 1
        is_certain = is_narrow and recommended.backing != "unconfirmed"
        tone = Tone.STRONG if is_certain and (best.meets or best.judged is None) else Tone.OPEN
    shown: list[Block] = [
        first_line(f"{found.workload}: {answer(result)}", tone),
        Table("Configurations", tuple(columns(result, rows)), caption(result)),
    ]
    again = results.confirmed(result)
    if again:
        shown.append(Table(CONFIRMATION, tuple(columns(result, again))))
    said = notes(result, rows)
    return [*shown, named(("note", note) for note in said)] if said else shown


def columns(result: Result, rows: Sequence[Row]) -> list[Column]:
    """The configurations as a table."""
    found = results.of(result)
    best = results.best(rows, found.bound)
    tones = tuple(Tone.STRONG if row is best else Tone.FAINT if row.exclusion else Tone.PLAIN for row in rows)
    optional = ("p95", "rounds", "p90", "efficiency", "bandwidth", "compute peak", "memory", "counting")
    shown = columns_of([_cells(found, row) for row in rows], ("configuration", "setting", "bound"), optional, tones)
    return [replace(each, meaning=_COUNTING) if each.title == "counting" else each for each in shown]


def _cells(found: Throughput, row: Row) -> dict[str, str]:
    bound = found.bound
    cost = results.cost_per_million(found, row)
    shown = {
        "configuration": row.configuration.name,
        "setting": row.setting or MISSING,
        "rounds": str(row.rounds or MISSING),
        f"{found.unit}/s": "failed" if row.throughput is None and row.failed else rate(row.throughput),
        "counting": MISSING if math.isinf(row.off) else f"±{share(row.off)}",
        **{name: seconds(row.percentiles.get(name), 3) for name in PERCENTILES},
        "bound": MISSING if bound is None or row.judged is None or not row.rounds else row.judged.outcome,
        "vs 1 instance": MISSING if row.scaling is None else _ratio(row.scaling),
        "efficiency": share(row.efficiency, 0),
        "memory": MISSING if row.memory is None else f"{row.memory / 1e9:.2f} GB",
        "compute peak": share(row.compute, 0),
        "bandwidth": share(row.bandwidth, 0),
        "cost per million": MISSING if cost is None else money(found, cost),
    }
    if bound is not None and bound.name not in PERCENTILES:
        shown[bound.name] = apart(row.bounded, bound.seconds, digits=3, show=seconds)[0]
    return shown


def rate(found: stats.Interval | None) -> str:
    """``35.1 ±1.3 %``; without the interval if there was only one round."""
    if found is None:
        return MISSING
    if not math.isfinite(found.high):
        return significant(found.value, 3)
    return f"{rounded_value(found)} {within(found)}"


def money(found: Throughput, cost: stats.Interval) -> str:
    """``1.23 USD``."""
    currency = f" {found.price.currency}" if found.price is not None and found.price.currency else ""
    return f"{significant(cost.value, 3)}{currency}"


def _ratio(found: stats.Interval) -> str:
    """``3.92× [3.88, 3.96]``; without the interval if there was only one round."""
    return ratio(found) if math.isfinite(found.high) else f"{found.value:.2f}×"


def caption(result: Result) -> str:
    """What was measured, and how."""
    found = results.of(result)
    report = results.context(result, found.configurations[0].group)
    ran = found.workload
    if report is not None:
        engine, versions = report.provenance.engine, report.provenance.versions
        ran += f" {report.setting.precision}, {engine} {versions.get(engine, '')}".rstrip()
    return (
        f"{ran} on {found.machine.cpu}: {found.topology.text}. Throughput of all "
        "instances together in the window in which all ran, with the 95 % interval over rounds; latency of one batch, "
        "over all instances."
    )


def not_valid(row: ComparedRow) -> list[str]:
    """``x86 and arm: not judged``: of instances that are compared, what is not known to predict right."""
    found: dict[str, list[str]] = {}
    for side in (row.base, row.other):
        if side is not None and side.served and side.requested != side.requested.reference():
            entry = side.validity.report if side.validity is not None else None
            verdict = "not judged" if entry is None else str(entry.validity.verdict)
            found.setdefault(verdict, []).append(side.side)
    return [f"{' and '.join(names)}: {verdict}" for verdict, names in found.items() if verdict != ValidityVerdict.VALID]


CONFIRMATION = "The best configuration, measured again in rounds of their own"
"""What the rows of the confirmation are."""


def answer(result: Result) -> str:
    """The best configuration in one sentence, to be put after the name of the workload."""
    found, recommended = results.of(result), results.recommendation(result)
    bound = found.bound
    if recommended is None:
        rows = results.rows(result)
        if bound is None or not any(row.throughput is not None for row in rows):
            return "no configuration could be measured"
        none = f"no configuration is known to meet {bound.text}"
        known = [row for row in rows if row.bounded is not None]
        if not known:
            return f"{none}; most batches took longer in all of them"
        nearest = min(known, key=lambda row: row.bounded or math.inf)
        latency = apart(nearest.bounded, bound.seconds, digits=3, show=seconds)[0]
        return f"{none}; the nearest is {nearest.configuration.name} with a {bound.name} of {latency}"
    best = recommended.row
    said = best.configuration.name
    if bound is None:
        said += " has the highest throughput"
    elif best.meets:
        said += f" has the highest throughput among those that meet {bound.text}"
    elif best.meets is False:
        said += f" seemed the fastest that meets {bound.text}, but did not meet it when it was measured again"
    else:
        said += f" is the fastest that may meet {bound.text}, but whether it does cannot be said{_wanting(best)}"
    said += f": {rate(best.throughput)} {found.unit}/s"
    if recommended.backing == "confirmed":
        said += f", measured again {'once' if best.rounds == 1 else f'in {best.rounds} rounds'} after the choice"
    elif recommended.backing == "unconfirmed":
        said += ", which is not confirmed: it comes from the rounds that chose it, and the best of several is partly "
        said += "luck"
    if best.latency is not None:
        is_bounded = bound is not None and best.bounded is not None
        name = bound.name if bound is not None and is_bounded else "median"
        said += f", with a {name} latency of {seconds(best.bounded if is_bounded else best.latency, 3)}"
    said += _against_one(recommended)
    cost = results.cost_per_million(found, best)
    if cost is not None:
        said += f"; a million {found.unit} cost {money(found, cost)}"
    if recommended.ties:
        said += f"; not told apart from it: {'; '.join(row.configuration.name for row in recommended.ties)}"
    return said


def _against_one(recommended: Recommendation) -> str:
    """How the throughput compares with that of a single instance; a verdict follows only from a confirmation."""
    speed, scaling = recommended.speed, recommended.row.scaling
    if speed is None:
        is_narrow = scaling is not None and scaling.half_width < 1
        return f", {_ratio(scaling)} the throughput of one instance" if scaling is not None and is_narrow else ""
    if speed.ratio is None:
        return f", which cannot be compared with one instance: {reason(speed)}"
    said = f", {_ratio(speed.ratio)} the throughput of one instance"
    if speed.verdict.outcome is Outcome.FASTER:
        return f"{said}{UNPROVEN if is_qualified(speed) else ''}"
    why = "one round, so there is no interval" if speed.found and speed.found.rounds == 1 else reason(speed)
    return f"{said}, which is {outcome_text(speed)} ({why})"


def _wanting(row: Row) -> str:
    """What would decide whether the bound is met, in parentheses; empty if that cannot be said."""
    if row.judged is None:
        return ""
    if row.judged.more_samples:
        more = row.judged.more_samples
        return f" ({more:,} more batch{'es' if more > 1 else ''} per round would be the least: give --seconds)"
    if row.rounds < 2:
        return " (it takes two rounds at least: --rounds)"
    if row.judged.more_rounds:
        more = row.judged.more_rounds
        return f" (about {counted(more, 'more round')} would probably decide: --rounds)"
    return ""


def command(result: Result, workload: str) -> str | None:
    """The command line that measures the best configuration alone; ``None`` if there is none."""
    found, recommended = results.of(result), results.recommendation(result)
    if recommended is None:
        return None
    own = recommended.row.configuration
    words = ["modelzoo", "throughput", workload, "--instances", str(own.instances)]
    words += ["--cores-per-instance", str(own.cores), "--batch", str(own.batch)]
    words += ["--smt", "on"] if own.smt is Smt.ON else []
    words += ["--slo", found.bound.text] if found.bound is not None else []
    # The options of the call that decide the setting, as they were given, before or after the workload.
    given = list(result.command)
    start = given.index("throughput") + 1 if "throughput" in given else len(given)
    kept = without_options(given[start:], _OWN)
    if workload in kept:
        kept.remove(workload)
    return shlex.join([*words, *kept])


def notes(result: Result, rows: Sequence[Row]) -> list[str]:
    """What qualifies the table: counts that are too small, stragglers, proof, what failed or was dropped."""
    found, again = results.of(result), results.confirmed(result)
    said: list[str] = []
    reports = (results.context(result, group) for group in dict.fromkeys(each.group for each in found.configurations))
    problems = dict.fromkeys(report.prepared.weights.problem for report in reports if report is not None)
    said += [f"the weights are random, as there are no trained ones: {problem}" for problem in problems if problem]
    for row in rows:
        name = row.configuration.name
        if row.is_short:
            said.append(
                f"{name}: an instance completed only {row.fewest} batches inside the window, fewer than "
                f"{LEAST}; the count may be off by {share(row.off)}"
            )
        if row.rounds == 1:
            said.append(f"{name}: one round, so there is no interval")
        for number, (completed, rounds) in list(row.stragglers.items())[:_NAMED]:
            instance = f"{name}: instance {number} on {cpus(row.configuration.places[number].cpus, most=4)}"
            batches = f"{share(completed, 0)} of the median instance's batches"
            said.append(f"{instance} completed {batches} in {rounds} of {row.rounds} rounds")
        more = len(row.stragglers) - _NAMED
        said += [f"{name}: and {more} more stragglers"] if more > 0 else []
        said += [f"{name}: failed: {_error(error)}" for error in row.errors]
        if row.exclusion is not None:
            said.append(f"{name}: {_excluded(row, row.exclusion, rows, found.bound)}")
        elif row.judged is not None and row.judged.outcome == "undecided" and row.rounds:
            said.append(f"{name}: whether it meets the bound cannot be said with 99 % confidence{_wanting(row)}")
    said += [
        f"{row.configuration.name}, measured again: failed: {_error(error)}" for row in again for error in row.errors
    ]
    kernels = [_instance_kernels(result, row) for row in rows]
    known = [each for each in kernels if each is not None]
    if len({each.instances for each in known}) > 1 and all(each.are_same for each in known):
        said.append("every configuration: the same kernels ran in all instances")
    else:
        said += _per_row(rows, list(map(_kernels, kernels)))
    said += _per_row(rows, [_placement(instance_placement(results.instances_of(found, row))) for row in rows])
    # What else used the CPUs.
    usages, allowed = [run.usage for run in found.runs if run.usage is not None], found.machine.threads.affinity
    other = [each.other_cores for each in usages if (each.other_cores or 0) > quiet_limit(allowed, each.resolution)]
    if other:
        used = max(filter(None, other))
        said.append(f"other programs used up to {used:.1f} cores during a round; stop them (top shows which)")
    steal = max((each.steal_percent or 0.0 for each in usages), default=0.0)
    if steal > 1:
        said.append(f"the hypervisor took up to {steal:.0f} % of the CPU time away during a round")
    return said


def _error(error: RoundError) -> str:
    """An error, with the first instances that it ended."""
    places = [
        f"round {number + 1}" if instance is None else f"instance {instance} in round {number + 1}"
        for number, instance in error.places
    ]
    where = f"{', '.join(places[:_NAMED])}{' …' if len(places) > _NAMED else ''}"
    return f"{where}: {NO_WINDOW if error.problem is None else error.problem}"


def _excluded(row: Row, exclusion: Exclusion, rows: Sequence[Row], bound: LatencyBound | None) -> str:
    """Why a configuration was measured no further."""
    if exclusion.kind is ExclusionKind.TOO_LARGE:
        needed, available = ((each or 0) / 1e9 for each in (exclusion.needed, exclusion.available))
        return f"it would need {needed:.1f} GB of memory, and {available:.1f} GB are available"
    best = results.best(rows, bound)
    if exclusion.kind is ExclusionKind.SLOWER and row.rates and best is not None:
        share_of = race.speed(row.logs) / race.speed(best.logs)
        return f"slower: {share_of:.2f}× the throughput of {best.configuration.name}"
    if exclusion.kind is not ExclusionKind.OVER_BOUND or bound is None:
        return exclusion.problem or str(exclusion.kind)
    if row.bounded is None:
        return f"too many batches took longer than {1e3 * bound.seconds:.4g} ms"
    return f"{bound.name} is {apart(row.bounded, bound.seconds, show=seconds)[0]}, over the bound"


def same_kernels(result: Result) -> str:
    """Whether all instances of the recommended configuration ran the kernels of the audited one; empty without one."""
    recommended = results.recommendation(result)
    return "" if recommended is None else _kernels(_instance_kernels(result, recommended.row))


def _instance_kernels(result: Result, row: Row) -> InstanceKernels | None:
    audited = results.context(result, row.configuration.group)
    return instance_kernels(audited, results.instances_of(results.of(result), row))


def _kernels(found: InstanceKernels | None) -> str:
    if found is None:
        return ""
    if not found.is_known:
        return "it is not known which kernels the instances ran"
    if found.unlike:
        first = ", ".join(
            f"CPUs {'+'.join(map(str, each.cpus[:4]))}{'…' if len(each.cpus) > 4 else ''}"
            for each in found.unlike[:_NAMED]
        )
        return f"{len(found.unlike)} of {found.instances} instances ran other kernels than the audited one ({first})"
    if found.unknown:
        return f"the kernels of {found.unknown} of {found.instances} instances are not known"
    return f"the same kernels ran in all {found.instances} instances"


def _placement(found: InstancePlacement | None) -> str:
    """Whether the instances ran on their CPUs with their memory beside them."""
    if found is None:
        return ""
    if found.elsewhere:
        return f"{found.elsewhere} of {found.instances} instances did not run on the CPUs that they were given"
    if not found.unproven:
        return "every instance ran on its own cores of one NUMA node, with its memory there (verified in numa_maps)"
    first = found.unproven[0]
    if first.problem is not None:
        reason = first.problem
    elif not first.nodes:
        reason = "the system does not say which NUMA nodes the CPUs belong to"
    elif not first.memory:
        reason = "/proc/self/numa_maps names no node"
    elif first.local_share is None:
        reason = "unknown"
    else:
        reason = f"{share(first.local_share, 0)} of its memory was on its node"
    return f"placement not verified for {len(found.unproven)} of {found.instances} instances: {reason}"


def _per_row(rows: Sequence[Row], texts: Sequence[str]) -> list[str]:
    """One line if all configurations have the same text; else one for each that has any."""
    said = [(row.configuration.name, text) for row, text in zip(rows, texts) if text]
    if len(said) > 1 and len({text for _, text in said}) == 1:
        return [f"every configuration: {said[0][1]}"]
    return [f"{name}: {text}" for name, text in said]
