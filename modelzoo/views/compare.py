"""Comparisons as documents: of stored results, and of both sides of ``modelzoo check``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from modelzoo import stats
from modelzoo.comparison.compare import SLOWER, Comparison, Gate
from modelzoo.comparison.estimate import Row
from modelzoo.comparison.explanations import kernel_changes
from modelzoo.comparison.machines import Extrapolation
from modelzoo.document import Block, Column, Line, Lines, Notices, Rows, Section, Table, lines, named
from modelzoo.formatting import counted, seconds, share
from modelzoo.records.run import Result
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN
from modelzoo.results import summary
from modelzoo.results.counting import Served
from modelzoo.results.proof import merged_proof
from modelzoo.results.refusals import ALLOWABLE, Metric
from modelzoo.stats import Basis, Outcome
from modelzoo.views import comparison as words
from modelzoo.views import differences, proof, throughput
from modelzoo.views.details import explanation, signed
from modelzoo.views.kernel_tables import shapes_text
from modelzoo.views.speed import basis_text, outlook_text, reason, refusal

QUANTITY = {
    Metric.LATENCY: "latency of one forward batch",
    Metric.THROUGHPUT: "items per second",
    Metric.COLD_START: "time from the loaded weights to the first answer, nothing compiled before",
    Metric.WARM_START: "time from the loaded weights to the first answer, compiled code in the cache",
    Metric.FIRST_TOKEN: "time to the first token (TTFT)",
    Metric.PER_TOKEN: "time per output token (TPOT)",
    Metric.MEMORY: "peak memory of a process",
}
SERVED = "{unit} per second of all instances of the best configuration (a round, which starts new ones, is a process)"
BASIS = {
    Basis.ROUNDS: "rounds in which both sides ran",
    Basis.SESSIONS: "the sessions that are compared",
    Basis.ASSUMED: "an assumption, because there are sessions on too few days (3 days each are enough)",
}
"""Where the variance comes from, in words."""
HEADLINE = ("CPU", "cores", "instance type", "image", "torch", "torch's blas", "device", "threads", "batch")
"""What both sides share is long; this stands above every table."""
DIFFERING = "What differs, the most decisive first"
MOST_CHANGES = 10
"""The most shapes of a row whose kernels are listed without ``--details``."""
MOST_DIFFERENCES = 12
"""The most conditions that are listed without ``--details``."""
SLOWDOWNS = (0.02, 0.05, 0.1)
"""What is said with which probability it would have been found, each beyond the bound of ``--fail-on slower:…``."""


def document(comparison: Comparison, gate: Gate, *, details: bool = False) -> list[Block]:
    """Return what is to be said of a comparison, in its order.

    Args:
        comparison: what was compared.
        gate: what became of its rows.
        details: also everything that both sides share, and explanations of rows that are neither faster nor slower.
    """
    names, found = (comparison.base.name, comparison.other.name), comparison.conditions.differing
    title = f"{names[1]} compared with {names[0]}"
    notes, marks = words.footnotes(comparison)
    verdicts = Table(title, tuple(words.row_columns(comparison, marks)))
    said = Lines((*notes, *lines(*_legend(comparison)).items))
    blocks: list[Block] = [
        Section(title, (words.headline(comparison), named(_sides(comparison, details=details)), verdicts, said))
    ]
    blocks += [*_alone(comparison), *_costs(comparison), *_proof(comparison)]
    blocks += [_tabular(DIFFERING, words.difference_columns(comparison), wraps=True)] if found else []
    blocks += explained(comparison, details=details)
    if comparison.stages:
        stages = "Stages of the pipelines, seconds per batch"
        if any(_generates(comparison)):
            stages = (
                "Times to the first token and per output token" if all(_generates(comparison)) else f"{stages}; tokens"
            )
        blocks.append(_tabular(stages, words.stage_columns(comparison)))
    if comparison.rates and not comparison.same_machine:  # on one machine the ratio says the same
        starred = []
        for row in comparison.rates:
            for name, rates in zip(names, (row.base, row.other)):
                starred.append(_extrapolated(name, rates.extrapolated))
                starred.append(f"Assumed of {name}: {words.cores_text(rates.assumed)}." if rates.assumed else "")
        columns = words.rate_columns(comparison.rates, names)
        blocks.append(_tabular("Throughput per machine, physical core and vCPU", columns, _starred(starred)))
    if gate.conditions:
        blocks.append(Section("Result", (lines(*words.gate_lines(comparison, gate)),)))
    return blocks


def _alone(comparison: Comparison) -> list[Block]:
    """What holds for the sessions alone, if they are of one day."""
    rows = [row for row in comparison.rows if row.alone is not None and row.speed.found is not None]
    if not rows:
        return []
    stored = (*comparison.base.results, *comparison.other.results)
    begun = sorted(each.result.created[:16] for each in stored)
    when = " to ".join(dict.fromkeys((begun[0], begun[-1]))).replace("T", " ")
    machines = "this machine" if comparison.same_machine else "these two machines"
    others = "" if comparison.same_machine else ", and other machines of these types,"
    spreads = [each for row in rows if row.speed.found is not None for each in row.speed.found.spreads]
    said = (
        f"Of {machines} during these sessions, by the spread of their processes, or of its sessions if a side has "
        f"3.{words.correction(len(rows))} Other hours{others} may differ: the verdict over days assumes "
        f"{share(spreads[0].deviation, 0)} (standard deviation)."
    )
    title = f"In these sessions alone, begun {when} UTC"
    return [_tabular(title, words.alone_columns(rows, comparison.costs), lines(said))]


def _costs(comparison: Comparison) -> list[Block]:
    """What a million items cost, and what that follows from."""
    if not comparison.costs:
        return []
    names, first = (comparison.base.name, comparison.other.name), comparison.costs[0]
    said = []
    for name, price in zip(names, (first.base_price, first.other_price)):
        dated = f" on {price.date}" if price.date else ""
        said.append((name, f"{price.per_hour:g} {price.currency}".rstrip() + f" per hour{dated} ({price.source})"))
    starred = [
        _extrapolated(name, each)
        for cost in comparison.costs
        for name, each in zip(names, (cost.base_extrapolated, cost.other_extrapolated))
    ]
    title = f"Cost of a million {first.unit if len({each.unit for each in comparison.costs}) == 1 else 'items'}"
    if not _is_served(comparison):
        title += ", computed from one process"
        said.append(("verdict", "only for results of 'modelzoo throughput', which measure the whole machine"))
    notes = Lines((*named(said).items, *_starred(starred).items))
    return [_tabular(title, words.cost_columns(comparison.costs, names), notes)]


def _proof(comparison: Comparison) -> list[Block]:
    """Which kernels the instances of both sides ran, and whether their predictions are right."""
    said = []
    for row in comparison.rows if _is_served(comparison) else ():
        pairs = ((row.base, comparison.base.judged), (row.other, comparison.other.judged))
        for side, judged in ((side, judged) for side, judged in pairs if side is not None):
            kernels = [str(proof.sentence(merged_proof(side.reports)) or proof.NO_EVIDENCE)]
            kernels += dict.fromkeys(filter(None, map(throughput.same_kernels, side.results)))
            said.append((f"kernels of {side.side}", "; ".join(kernels)))
            said.append((f"accuracy of {side.side}", words.accuracy(side, judged)))
    return [Section("Kernels and accuracy", (named(said),))] if said else []


def _is_served(comparison: Comparison) -> bool:
    """Whether instances were compared."""
    return any(side.served for row in comparison.rows for side in (row.base, row.other) if side is not None)


def explained(comparison: Comparison, *, details: bool) -> list[Section]:
    """Where the differences of rows come from; with ``details``, also of rows that are neither faster nor slower."""
    names = (comparison.base.name, comparison.other.name)
    decided = {
        (row.workload, row.setting) for row in comparison.rows if row.outcome in (Outcome.FASTER, Outcome.SLOWER)
    }
    found = [(each, (each.workload, each.label) in decided) for each in comparison.explanations]
    return [explanation(each, names, is_decided=is_) for each, is_ in found if is_ or details]


def _tabular(title: str, columns: Sequence[Column], *more: Block, wraps: bool = False) -> Section:
    """A section that consists of a table and what follows it."""
    return Section(title, (Table(title, tuple(columns), wraps=wraps), *more))


def _extrapolated(name: str, found: Extrapolation | None) -> str:
    return "" if found is None else f"Extrapolated: {name} {words.extrapolation_text(found)}."


def _starred(texts: Iterable[str]) -> Lines:
    """Footnotes of what was not measured; equal ones are one."""
    return Lines(tuple(Line(each, mark=words.ASSUMED) for each in dict.fromkeys(filter(None, texts))))


def _sides(comparison: Comparison, *, details: bool) -> Iterator[tuple[str, str]]:
    for side, settings in (
        (comparison.base, [row.base for row in comparison.rows]),
        (comparison.other, [row.other for row in comparison.rows]),
    ):
        first, last = side.results[0], side.results[-1]
        days = list(dict.fromkeys((first.result.created[:10], last.result.created[:10])))
        count = len(side.results)
        where = first.path if count == 1 else f"{first.path} … {last.path}"
        chosen = [each for setting in settings if setting is not None for each in setting.served]
        best = dict.fromkeys(f"; {_best(each)}: {each.configuration or 'none'}" for each in chosen)
        yield side.name, f"{counted(count, 'session')}, {' to '.join(days)}, {where}{''.join(best)}"
    # Values that differ between rows say nothing here.
    shared = [(name, values) for name, values in comparison.conditions.shared if values]
    shown = [f"{name} {words.values_text(values)}" for name, values in shared if details or name in HEADLINE]
    if len(shown) < len(shared):
        shown.append(f"{len(shared) - len(shown)} more with --details")
    if shown:
        yield "both", "; ".join(shown)


def _best(found: Served) -> str:
    """What the configuration of a session is the best of, as far as that is known."""
    if found.bound is None:
        return "best"
    is_said = found.is_met or not found.configuration
    return f"best under {found.bound.text}" if is_said else f"best that may meet {found.bound.text}"


def _legend(comparison: Comparison) -> Iterator[str]:
    """What the columns mean, and what the verdicts rest on."""
    names, metric = (comparison.base.name, comparison.other.name), comparison.metric
    units = [each.unit for row in comparison.rows if row.base is not None for each in row.base.served]
    quantity = SERVED.format(unit=units[0]) if units else QUANTITY[metric]
    if metric is Metric.LATENCY:
        sides = (side for row in comparison.rows for side in (row.base, row.other) if side is not None)
        quantity += ", with stages that of the whole pipeline" if any(side.requested.stages for side in sides) else ""
        quantity += ", of language models that of a whole generation" if any(_generates(comparison)) else ""
    mean = "geometric mean of the processes' values, ± its 95 % interval on its own"
    yield f"{names[0]}, {names[1]}: {quantity}, {mean}."
    compared = words.ratios_by_name(comparison)
    if compared:
        better = f"speedup of {names[1]} (below 1: slower)"
        if metric is Metric.MEMORY:
            better = f"memory of {names[0]} divided by that of {names[1]} (below 1: {names[1]} takes more)"
        said = f"ratio: {better}, with its 95 % interval, which allows for differences between sessions."
        yield said + words.correction(len(compared))
    for basis in Basis:
        alike = {name: each for name, each in compared.items() if each.basis is basis}
        if alike:
            of = "" if len(alike) == len(compared) else f" of {', '.join(alike)}"
            yield f"basis{of}: {BASIS[basis]}; {basis_text(*alike.values())}."
    yield from words.notes(comparison)


def _generates(comparison: Comparison) -> list[bool]:
    """Whether the parts of a row are the times of its tokens, for each part."""
    return [each.name in (FIRST_TOKEN, PER_TOKEN) for each in comparison.stages]


def check_document(
    result: Result, comparison: Comparison, gate: Gate, asked: tuple[str, str], *, details: bool = False
) -> list[Block]:
    """Return the page.

    Args:
        result: of the call.
        comparison: of its two sides.
        gate: what ``--fail-on`` makes of it.
        asked: what the sides were asked to be.
        details: list everything, and explain rows that are neither faster nor slower.
    """
    names = (comparison.base.name, comparison.other.name)
    shown = summary.rows(result)
    title = f"{names[1]} compared with {names[0]}"
    first = (
        words.headline(comparison),
        lines(*(words.gate_lines(comparison, gate) if gate.conditions else ())),
        named([*zip(names, asked), ("both", differences.machine(shown))]),
        Table(title, words.row_columns(comparison, {})),
        lines(*_check_legend(comparison, gate)),
    )
    blocks: list[Block] = [Section(title, first), *_open(comparison)]
    blocks += [each for row in comparison.rows for each in _kernels(row, names, details=details)]
    blocks += explained(comparison, details=details)
    blocks += [_accuracy(comparison, names), _differences(comparison, details=details)]
    notices = differences.conditions(shown)
    return [*blocks, *([Section("Conditions", [Notices(notices)])] if notices else [])]


def _check_legend(comparison: Comparison, gate: Gate) -> Iterator[str]:
    base, head = comparison.base.name, comparison.other.name
    yield f"{base}, {head}: {QUANTITY[Metric.LATENCY]}, geometric mean of the processes' medians, ± its 95 % interval."
    compared = [(row, row.speed.found) for row in comparison.rows if row.speed.found is not None]
    if compared:
        yield (
            f"ratio: speedup of {head} (below 1: slower) with its 95 % interval, from rounds in which both sides ran "
            f"in alternating turns.{words.correction(len(compared))}"
        )
    bound = min((each.fraction or 0.0 for each in gate.conditions if each.name == SLOWER), default=0.0)
    for row, found in compared:
        said = f"{row.name}: {counted(found.rounds, 'round')}; {basis_text(found)}."
        powers = [(bound + each, found.power(bound + each, bound, len(compared))) for each in SLOWDOWNS]
        # One table in fifty may be wrong whatever the power: 2 % slower is at the edge of SAME.
        least = [(size, min(p, stats.VERDICT_CONFIDENCE)) for size, p in powers if p is not None]
        known = [(f"{100 * size:g} %", f"{math.floor(100 * p)} %") for size, p in least]
        if known:
            sizes, shares = map(_listed, zip(*known))
            said += f" If rounds differ no more than these did, a slowdown of {sizes} is found with a probability of at"
            said += f" least {shares}."
        yield said


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _open(comparison: Comparison) -> list[Block]:
    """What could not be decided, and what would decide it."""
    found: list[tuple[str, str]] = []
    for row in comparison.rows:
        if row.outcome is Outcome.AMBIGUOUS:
            outlook = row.speed.verdict.outlook
            more = f"; {outlook_text(outlook)}: give a larger --budget" if outlook is not None else ""
            found.append((row.name, f"{reason(row.speed)}{more}"))
        for each in row.speed.refused:
            way = f" (--allow {each.obstacle} compares all the same)" if each.obstacle in ALLOWABLE else ""
            found.append((row.name, f"not comparable: {refusal(each)}{way}"))
        found += [(row.name, f"allowed: {refusal(each)}") for each in row.speed.allowed]
    return [Section("Not decided", (named(found),))] if found else []


def _kernels(row: Row, names: tuple[str, str], *, details: bool) -> Iterator[Section]:
    """The shapes whose products other kernels computed; nothing if a side was not audited."""
    found = kernel_changes(row)
    if found is None:
        return
    all_changes, shapes = found
    title = f"Kernels of {row.name}"
    if not all_changes:
        yield Section(title, (lines(f"The same kernels computed all products on both sides (shapes: {shapes})."),))
        return
    changes = all_changes if details else all_changes[:MOST_CHANGES]
    said = f"Other kernels computed {len(all_changes)} of {shapes} shapes of products"
    left_out = len(all_changes) > len(changes)
    said += f"; the {len(changes)} whose time changed most (--details lists all)." if left_out else "."
    of, parts, (base, other) = Rows(changes), Rows(part for _, part in changes), names
    columns = (
        parts.text("operation", lambda each: each.name),
        of.text("shapes", lambda each: shapes_text(each[0])),
        parts.text(f"kernel of {base}", lambda each: ", ".join(each.base_kernels) or None),
        parts.text(f"kernel of {other}", lambda each: ", ".join(each.other_kernels) or None),
        parts.number(f"{base} per pass", lambda each: seconds(each.base if each.base_kernels else None), order=0),
        parts.number(f"{other} per pass", lambda each: seconds(each.other if each.other_kernels else None), order=0),
        parts.number("change", lambda each: signed(each.change)),
    )
    table = Table(title, columns, "Times are those of audited passes, without intervals.")
    yield Section(title, (lines(said), table))


def _accuracy(comparison: Comparison, names: tuple[str, str]) -> Section:
    """What the judgement of each side says."""
    sides = [(row, name, side) for row in comparison.rows for name, side in zip(names, (row.base, row.other)) if side]
    judged = [(f"{row.name}, {name}", words.accuracy(side)) for row, name, side in sides if side.validity is not None]
    why = "--validate judges the predictions of each side against its own fp32."
    if all(side.requested == side.requested.reference() for _, _, side in sides):
        why = (
            "fp32 in eager mode is what other settings are judged against. --bf16 or --mode, with --validate, judges "
            "each side against its own fp32."
        )
    return Section("Accuracy", (named(judged) if judged else lines(f"Not checked: {why}"),))


def _differences(comparison: Comparison, *, details: bool) -> Section:
    """What differs between the sides; kernels, which are a consequence, have tables of their own."""
    found = len(comparison.conditions.differing)
    if not found:
        ran = any(row.base and row.other and row.base.reports and row.other.reports for row in comparison.rows)
        said = "Nothing that is recorded." if ran else "Not known: no workload ran on both sides."
        return Section("What differs", [lines(said)])
    table, more = Table(DIFFERING, words.difference_columns(comparison), wraps=True), found - MOST_DIFFERENCES
    if details or more <= 0:
        return Section(DIFFERING, [table])
    return Section(DIFFERING, (table.first(MOST_DIFFERENCES), lines(f"{more} more with --details")))
