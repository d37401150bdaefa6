"""A comparison as a document: what stands above its table, below it and in its footnotes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from modelzoo.comparison.compare import Comparison, Gate, is_complete, share_sessions
from modelzoo.comparison.estimate import Row, StoredResult
from modelzoo.document import Block, Column, Line, Lines, Section, Table, Tone, first_line, lines, named
from modelzoo.formatting import counted, share
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN
from modelzoo.results.counting import Served
from modelzoo.results.proof import merged_proof
from modelzoo.results.refusals import Metric, Obstacle, SideSetting
from modelzoo.stats import Basis, Doubt, Outcome, Ratio, Verdict
from modelzoo.views import compare_columns, explanations, proof, throughput
from modelzoo.views.compare_columns import cores_text, extrapolation_text, values_text
from modelzoo.views.intervals import ratio
from modelzoo.views.judgement import reason_text, scope_text, validity_text
from modelzoo.views.speed import (
    UNPROVEN,
    basis_text,
    is_qualified,
    outcome_text,
    reason,
    refusal,
    several,
    subject,
    verdict_reason,
)

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
_FASTER = "speedup of {name} (below 1: slower)"
BETTER = {
    **dict.fromkeys(Metric, _FASTER),
    Metric.MEMORY: "memory of {base} divided by that of {name} (below 1: {name} takes more)",
}
BASIS = {
    Basis.ROUNDS: "rounds in which both sides ran",
    Basis.SESSIONS: "the sessions that are compared",
    Basis.ASSUMED: "an assumption, because there are sessions on too few days (3 days each are enough)",
}
"""Where the variance comes from, in words."""
HEADLINE = ("CPU", "cores", "instance type", "image", "torch", "torch's blas", "device", "threads", "batch")
"""What both sides share is long; this stands above every table."""
_TONES = {
    **dict.fromkeys((Outcome.SLOWER, Outcome.MORE), Tone.WORSE),
    **dict.fromkeys((Outcome.AMBIGUOUS, Outcome.NOT_COMPARABLE), Tone.OPEN),
    **dict.fromkeys((Outcome.FASTER, Outcome.LESS), Tone.BETTER),
}
"""Of the headline, by the first of these outcomes that a row has."""
COSTS = {
    Outcome.CHEAPER: "{1} is cheaper than {0}",
    Outcome.DEARER: "{1} is dearer than {0}",
    Outcome.SAME: "{1} and {0} cost the same",
    Outcome.AMBIGUOUS: "no significant difference in cost between {1} and {0}",
}
DECIDED = (Outcome.FASTER, Outcome.SLOWER)
DIFFERING = "What differs, the most decisive first"


def document(comparison: Comparison, gate: Gate, *, details: bool = False) -> list[Block]:
    """Return what is to be said of a comparison, in its order.

    Args:
        comparison: what was compared.
        gate: what became of its rows.
        details: also everything that both sides share, and explanations of rows that are neither faster nor slower.
    """
    names, found = (comparison.base.name, comparison.other.name), comparison.conditions.differing
    title = f"{names[1]} compared with {names[0]}"
    notes, marks = footnotes(comparison)
    verdicts = Table(title, tuple(compare_columns.row_columns(comparison, marks)))
    said = Lines((*notes, *lines(*_legend(comparison)).items))
    blocks: list[Block] = [
        Section(title, (headline(comparison), named(_sides(comparison, details=details)), verdicts, said))
    ]
    blocks += [*_alone(comparison), *_costs(comparison), *_proof(comparison)]
    blocks += [_tabular(DIFFERING, compare_columns.difference_columns(comparison), wraps=True)] if found else []
    blocks += explained(comparison, details=details)
    if comparison.stages:
        stages = "Stages of the pipelines, seconds per batch"
        if any(_generates(comparison)):
            stages = (
                "Times to the first token and per output token" if all(_generates(comparison)) else f"{stages}; tokens"
            )
        blocks.append(_tabular(stages, compare_columns.stage_columns(comparison)))
    if comparison.rates and not comparison.same_machine:  # on one machine the ratio says the same
        starred: dict[str, None] = {}
        for row in comparison.rates:
            for name, rates in zip(names, (row.base, row.other)):
                if rates.extrapolated is not None:
                    starred[f"Extrapolated: {name} {extrapolation_text(rates.extrapolated)}."] = None
                if rates.assumed is not None:
                    starred[f"Assumed of {name}: {cores_text(rates.assumed)}."] = None
        columns = compare_columns.rate_columns(comparison.rates, names)
        blocks.append(_tabular("Throughput per machine, physical core and vCPU", columns, _starred(starred)))
    if gate.conditions:
        blocks.append(Section("Result", (lines(*gate_lines(comparison, gate)),)))
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
        f"3.{correction(len(rows))} Other hours{others} may differ: the verdict over days assumes "
        f"{share(spreads[0].deviation, 0)} (standard deviation)."
    )
    title = f"In these sessions alone, begun {when} UTC"
    return [_tabular(title, compare_columns.alone_columns(rows, comparison.costs), lines(said))]


def _costs(comparison: Comparison) -> list[Block]:
    """What a million items cost, and what that follows from."""
    if not comparison.costs:
        return []
    names, first = (comparison.base.name, comparison.other.name), comparison.costs[0]
    said = []
    for name, price in zip(names, (first.base_price, first.other_price)):
        dated = f" on {price.date}" if price.date else ""
        said.append((name, f"{price.per_hour:g} {price.currency}".rstrip() + f" per hour{dated} ({price.source})"))
    starred: dict[str, None] = {}
    for cost in comparison.costs:
        for name, each in zip(names, (cost.base_extrapolated, cost.other_extrapolated)):
            starred |= {f"Extrapolated: {name} {extrapolation_text(each)}.": None} if each is not None else {}
    title = f"Cost of a million {first.unit if len({each.unit for each in comparison.costs}) == 1 else 'items'}"
    if not _is_served(comparison):
        title += ", computed from one process"
        said.append(("verdict", "only for results of 'modelzoo throughput', which measure the whole machine"))
    notes = Lines((*named(said).items, *_starred(starred).items))
    return [_tabular(title, compare_columns.cost_columns(comparison.costs, names), notes)]


def _proof(comparison: Comparison) -> list[Block]:
    """Which kernels the instances of both sides ran, and whether their predictions are right."""
    said = []
    for row in comparison.rows if _is_served(comparison) else ():
        pairs = ((row.base, comparison.base.judged), (row.other, comparison.other.judged))
        for side, judged in ((side, judged) for side, judged in pairs if side is not None):
            kernels = [str(proof.sentence(merged_proof(side.reports)) or proof.NO_EVIDENCE)]
            kernels += dict.fromkeys(filter(None, map(throughput.same_kernels, side.results)))
            said += [
                (f"kernels of {side.side}", "; ".join(kernels)),
                (f"accuracy of {side.side}", accuracy(side, judged)),
            ]
    return [Section("Kernels and accuracy", (named(said),))] if said else []


def accuracy(side: SideSetting, judged: Sequence[StoredResult] = ()) -> str:
    """What the judgement of a setting says, or why none of those in ``judged`` is one of it."""
    entry = side.validity
    if entry is not None and entry.report is not None:
        found = entry.report.validity
        return "; ".join(filter(None, (validity_text(entry), reason_text(found), scope_text(found))))
    if entry is not None:
        return f"could not be judged: {entry.error}"
    if side.requested == side.requested.reference():
        return "fp32 in eager mode is what other settings are judged against"
    if judged:
        beside = ", ".join(each.path for each in judged)
        return f"not judged by {beside}: another workload or setting, other weights, another machine or another torch"
    return "not judged; name a result of 'modelzoo validate' beside it: NAME=throughput.json,validate.json"


def _is_served(comparison: Comparison) -> bool:
    """Whether instances were compared."""
    return any(side.served for row in comparison.rows for side in (row.base, row.other) if side is not None)


def explained(comparison: Comparison, *, details: bool) -> list[Section]:
    """Where the differences of rows come from; with ``details``, also of rows that are neither faster nor slower."""
    names = (comparison.base.name, comparison.other.name)
    decided = {(row.workload, row.setting) for row in comparison.rows if row.outcome in DECIDED}
    found = [(each, (each.workload, each.label) in decided) for each in comparison.explanations]
    return [explanations.section(each, names, is_decided=is_) for each, is_ in found if is_ or details]


def _tabular(title: str, columns: Sequence[Column], *more: Block, wraps: bool = False) -> Section:
    """A section that consists of a table and what follows it."""
    return Section(title, (Table(title, tuple(columns), wraps=wraps), *more))


def _starred(texts: Iterable[str]) -> Lines:
    return Lines(tuple(Line(each, mark=compare_columns.ASSUMED) for each in texts))


def headline(comparison: Comparison) -> Lines:
    """Return how many rows are faster or slower, and what that rests on."""
    base, other, rows = comparison.base.name, comparison.other.name, comparison.rows
    compared = [row for row in rows if row.ratio is not None]
    against = [each for row in rows for each in (*row.speed.refused, *row.speed.allowed)]
    wrong = [each for each in against if each.obstacle is Obstacle.WRONG]
    if wrong and compared:
        return first_line(refusal(wrong[0]), Tone.BAD)
    if not compared:
        whys = Counter(text for row in rows for text in _notes_of(row, ()))
        said = f"{other} is not comparable with {base}" + "".join(f": {text}" for text, _ in whys.most_common(1))
        said += "".join(f"; {text}" for text in _unfinished(comparison))
        return first_line(said, Tone.BAD)
    if len(rows) == 1:
        clauses = []
        for cost in comparison.costs:
            if cost.outcome is not None:
                unproven = UNPROVEN if cost.is_unproven and cost.outcome is not Outcome.AMBIGUOUS else ""
                clauses.append(f"{COSTS[cost.outcome].format(base, other)}: {ratio(cost.ratio)}{unproven}")
        unproven = UNPROVEN if is_qualified(rows[0].speed) else ""
        clauses.append(f"{subject(base, other, rows[0].outcome)}{_shown_ratio(rows[0])}{unproven}")
        said = f"{rows[0].name}: {'; '.join(clauses)}"
    else:
        said = several(base, other, [row.speed for row in rows], "rows")
    if comparison.mean is not None and len(compared) > 1:
        said += f"; geometric mean {ratio(comparison.mean)}"
    if any(each.basis is Basis.ASSUMED for each in _found(comparison).values()):
        said += "; too few sessions, so how much they differ is ASSUMED"
    alone = rows[0].alone if len(rows) == 1 else None
    if alone is not None and alone.ratio is not None:
        said += f"; in these sessions alone {outcome_text(alone)}, {ratio(alone.ratio)}"
        in_cost = [f" and in cost {each.alone_outcome}, {ratio(each.alone)}" for each in comparison.costs if each.alone]
        said += "".join(in_cost)
    said += "".join(f"; accuracy of {each}" for each in throughput.not_valid(rows[0]))
    outcomes = {row.outcome for row in rows}
    return first_line(said, next((tone for each, tone in _TONES.items() if each in outcomes), Tone.SAME))


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
    shown = [f"{name} {values_text(values)}" for name, values in shared if details or name in HEADLINE]
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


def footnotes(comparison: Comparison) -> tuple[list[Line], dict[int, str]]:
    """Return the footnotes, each with its mark, and the marks of each row; equal notes are one."""
    numbers: dict[str, int] = {}
    marks: dict[int, str] = {}
    by_chance = [row.speed.verdict for row in comparison.rows if row.speed.verdict.doubt is Doubt.CHANCE]
    for index, row in enumerate(comparison.rows):
        texts = _notes_of(row, by_chance)
        for text in texts:
            numbers.setdefault(text, len(numbers) + 1)
        marks[index] = " ".join(f"[{numbers[text]}]" for text in texts)
    return [Line(text, mark=f"[{number}]") for text, number in numbers.items()], marks


def _notes_of(row: Row, by_chance: Sequence[Verdict]) -> list[str]:
    """Why a row has no clear verdict, and what was let through.

    Args:
        row: it. What its verdict rests on stands in the legend.
        by_chance: the verdicts of all rows that may differ by chance, for which one sentence is enough.
    """
    verdict, whys = row.speed.verdict, [refusal(each) for each in row.speed.refused]
    if row.outcome is Outcome.AMBIGUOUS:
        alike = sorted(by_chance, key=lambda each: each.p_value or 0.0) if verdict in by_chance else [verdict]
        whys = [verdict_reason(alike[0], alike[-1].p_value or 0.0)]
    return [*whys, *(f"allowed: {refusal(each)}" for each in row.speed.allowed)]


def _found(comparison: Comparison) -> dict[str, Ratio]:
    """The ratios by the names of their rows."""
    return {row.name: row.speed.found for row in comparison.rows if row.speed.found is not None}


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
    compared = _found(comparison)
    if compared:
        better = BETTER[metric].format(base=names[0], name=names[1])
        yield (
            f"ratio: {better}, with its 95 % interval, which allows for differences between sessions."
            f"{correction(len(compared))}"
        )
    for basis in Basis:
        alike = {name: each for name, each in compared.items() if each.basis is basis}
        if alike:
            of = "" if len(alike) == len(compared) else f" of {', '.join(alike)}"
            yield f"basis{of}: {BASIS[basis]}; {basis_text(*alike.values())}."
    yield from notes(comparison)


def notes(comparison: Comparison) -> list[str]:
    """What the numbers do not say by themselves."""
    if any(each.basis is Basis.ROUNDS for each in _found(comparison).values()):
        return []  # one session has both sides
    if comparison.same_machine:
        found = [
            "Baseline and candidate ran on machines that do not differ in what decides speed (processor, cores, "
            "caches, memory, frequency limits, CPU limits); stored results do not tell two such machines apart."
        ]
    else:
        found = [
            "The verdicts are about these two machines, not about two types of machine: those could only be compared "
            "with several machines of each type."
        ]
    if share_sessions(comparison.base, comparison.other):
        found.append(
            "Some sessions belong to both baseline and candidate. Settings of one session ran in the same rounds, and "
            "'modelzoo report' compares them round by round, more precisely than this."
        )
    return [*found, *(f"{text}." for text in _unfinished(comparison))]


def _unfinished(comparison: Comparison) -> Iterator[str]:
    """Which results are not those of whole calls."""
    for side in (comparison.base, comparison.other):
        partial = [stored.path for stored in side.results if not is_complete(stored.result)]
        if partial:
            yield f"{side.name}: stored before the call had ended: {', '.join(partial)}"


def _generates(comparison: Comparison) -> list[bool]:
    """Whether the parts of a row are the times of its tokens, for each part."""
    return [each.name in (FIRST_TOKEN, PER_TOKEN) for each in comparison.stages]


def correction(count: int) -> str:
    """Say for how many comparisons the verdicts are corrected; empty if there is one."""
    if count == 1:
        return ""
    return f" The verdicts are corrected for {count} comparisons (Holm), the intervals are not."


def gate_lines(comparison: Comparison, gate: Gate) -> list[str]:
    """Return which rows fail, and what passed although nothing is certain."""
    found = [
        f"FAILED {condition}: {row.name}{_shown_ratio(row)}"
        for row, conditions in zip(comparison.rows, gate.failures)
        for condition in conditions
    ]
    if not found:
        found = [f"passed: no row meets {', '.join(map(str, gate.conditions))}"]
    for outcome in (Outcome.AMBIGUOUS, Outcome.NOT_COMPARABLE):
        passed = [
            row.name
            for row, conditions in zip(comparison.rows, gate.failures)
            if row.outcome is outcome and not conditions
        ]
        if passed:
            found.append(f"{len(passed)} of {len(comparison.rows)} rows passed {outcome}: {', '.join(passed)}")
    return found


def _shown_ratio(row: Row) -> str:
    return f", ratio {ratio(row.ratio)}" if row.ratio is not None else f", {reason(row.speed)}"
