"""What a call found, in sentences, and the conditions that may distort it. Pure.

A workload gets one sentence, which answers the question that its settings ask. Conditions are grouped by their code:
each is said once, with the rows it concerns and its hint, the most harmful first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce

from modelzoo import formatting, stats
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.report.accelerators import LAUNCH_HINT
from modelzoo.report.differences import ShownRow, by_workload, short_names
from modelzoo.report.results_table import interval, is_proven, timed_unit
from modelzoo.results.adjustment import Adjustment
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import SpeedVerdict
from modelzoo.warning import Severity, WarningMessage, rank

NAMED_SETTINGS = 4
"""A condition names the settings of a workload that it concerns up to this many, then only counts them."""
_PLACES = re.compile(r" \(in \d+ of \d+ processes\)$")
"""What the summary adds to the warning of some processes; grouped, it would be read as that of all rows."""
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
_TOKEN = re.compile(r"[()]|\s+|[^\s()]+")


_DIFFERS = {True: "computes what torch does", False: "does NOT compute what torch does", None: "differs from fp32"}
"""What is said of an engine by ``OutputAgreement.is_same``."""


@dataclass(frozen=True)
class Condition:
    """A condition that may distort results.

    Attributes:
        code: of the warning.
        severity: what it does to the result.
        concerns: the rows that it concerns, as text; empty if it concerns all.
        message: what it is; numbers that differ between rows are merged to a range.
        hint: how to fix it.
    """

    code: str
    severity: Severity
    concerns: str
    message: str
    hint: str


def sentences(shown: Sequence[ShownRow]) -> dict[str, str]:
    """Return one sentence per workload: how its settings compare, whether the precision is proven, the predictions."""
    return {workload: _sentence(rows) for workload, rows in by_workload(shown).items()}


def steadiness(found: Adjustment) -> str:
    """Say how steady the machine was, by the reference load, and why latencies are not adjusted if they are not."""
    said = []
    if found.spread is not None:
        said.append(f"its speed varied by {100 * found.spread:.0f} % during the run")
        if found.refused:
            said.append(f"latencies are not adjusted for that, because {found.refused}")
        elif found.left_out:
            said.append(f"the reference load does not predict {', '.join(found.left_out)}, so that is not adjusted")
    if found.without_load:
        said.append(f"the reference load ended early (number of processes that ran without it: {found.without_load})")
    return "; ".join(said)


def _sentence(shown: Sequence[ShownRow]) -> str:
    rows, names = [each.row for each in shown], short_names(shown)
    compared = [(name, row) for name, row in zip(names, rows) if not row.is_baseline]
    base = next((name for name, row in zip(names, rows) if row.is_baseline), "")
    if all(row.errors and not row.processes for row in rows):
        return f"{', '.join(names)} failed" if len(rows) <= NAMED_SETTINGS else f"all {len(rows)} settings failed"
    if not compared or not any(row.latency for row in rows):
        said = _alone(names[0], rows[0])
    elif len(compared) == 1:
        said = _pair(*compared[0], base, _unit(rows))
    else:
        said = _several(compared, base, _unit(rows))
    rest = [_launching(names, rows), _proof(names, rows), _agreement(names, rows), _predictions(rows)]
    return "; ".join(filter(None, [said, *rest]))


def _launching(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """Which settings spend their time issuing kernels, and what helps; empty if none does."""
    bound = [name for name, row in zip(names, rows) if row.spans is not None and row.spans.bound_by_launching]
    if not bound:
        return ""
    said = "bound by launching" if len(bound) == len(rows) == 1 else f"{', '.join(bound)}: bound by launching"
    return f"{said} ({LAUNCH_HINT})"


def _unit(rows: Sequence[SummaryRow]) -> str:
    """What is compared if it is not the time: items per second, if the settings have different batch sizes."""
    unit = next((row.unit for row in rows if row.unit), "items")
    return f"{unit}/s" if len({row.batch for row in rows if row.batch}) > 1 else ""


def _alone(name: str, row: SummaryRow) -> str:
    if row.latency is None:
        return "nothing was timed"
    return f"{timed_unit(row)} in {name} takes {interval(row.latency)}"


def _pair(name: str, row: SummaryRow, base: str, unit: str) -> str:
    """How one setting compares with the baseline. That of bf16 is fp32, which needs no words."""
    if row.verdict is None:
        return f"{name} failed" if row.errors else f"{name} was not timed"
    outcome = row.verdict.outcome
    if row.speedup is None or outcome is SpeedVerdict.REFUSED:
        return f"{name} is not compared with {base}: {row.verdict.reason}"
    if outcome in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER):
        return f"{name} {_difference(row.speedup, outcome, base, unit, is_plain=(base, name) == ('fp32', 'bf16'))}"
    of = f" in {unit}" if unit else ""
    if outcome is SpeedVerdict.SAME:
        return f"{name} and {base} are equally fast{of}: ratio {_ratio(row.speedup)}"
    # The reason, a p-value, is among the details.
    why = row.verdict.outlook or row.verdict.reason
    return f"{name} and {base} cannot be told apart{of}: ratio {_ratio(row.speedup)}; {why}"


def _difference(speedup: stats.Interval, outcome: SpeedVerdict, base: str, unit: str, is_plain: bool = False) -> str:
    if unit:
        return f"processes {times(speedup)} as many {unit} as {base} {bounds(speedup)}"
    slower = outcome is SpeedVerdict.SLOWER
    found = inverse(speedup) if slower else speedup
    than = "" if is_plain else f" than {base}"
    return f"is {times(found)} {'slower' if slower else 'faster'}{than} {bounds(found)}"


def _several(compared: Sequence[tuple[str, SummaryRow]], base: str, unit: str) -> str:
    """The fastest of several settings, and how the others compare with the baseline."""
    counts = Counter(row.verdict.outcome if row.verdict else None for _, row in compared)
    faster = [
        (row.speedup, name)
        for name, row in compared
        if row.speedup is not None and row.verdict is not None and row.verdict.outcome is SpeedVerdict.FASTER
    ]
    if not faster:
        return f"none of {len(compared)} settings is faster than {base}: {_counted(counts)}{_to_decide(compared)}"
    gain, best = max(faster, key=lambda each: each[0].value)
    counts[SpeedVerdict.FASTER] -= 1
    first = "the most" if unit else "the fastest"
    return (
        f"{best} {_difference(gain, SpeedVerdict.FASTER, base, unit)}, {first} of {len(compared) + 1} settings; the "
        f"others, compared with the baseline: {_counted(counts)}{_to_decide(compared)}"
    )


def _to_decide(compared: Sequence[tuple[str, SummaryRow]]) -> str:
    """What it would take to decide the comparisons that are not: as much as the one that takes the most."""
    verdicts = [row.verdict for _, row in compared if row.verdict is not None]
    outlooks = [verdict.outlook for verdict in verdicts if verdict.outlook is not None]
    if not outlooks:
        return ""
    longest = max(outlooks, key=lambda outlook: outlook.processes)
    return f"; about {longest.effort} would decide {'all of them' if len(outlooks) > 1 else 'it'}"


def _counted(counts: Counter[SpeedVerdict | None]) -> str:
    words = {
        SpeedVerdict.FASTER: "faster",
        SpeedVerdict.SLOWER: "slower",
        SpeedVerdict.SAME: "equally fast",
        SpeedVerdict.AMBIGUOUS: "could not be told apart from it",
        SpeedVerdict.REFUSED: "could not be compared",
        None: "failed",
    }
    return ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome])


def _proof(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """Whether every setting ran in the precision that it names."""
    ran = [(name, row) for name, row in zip(names, rows) if row.processes or row.proof_verdict]
    open_ = [(name, row) for name, row in ran if not is_proven(row)]
    if not ran:
        return "precision not proven"
    if not open_:
        return "proven"
    if all(row.proof_verdict is None for _, row in open_):
        return "precision not proven (no audit)"
    if len(open_) > NAMED_SETTINGS:
        return f"precision not proven for {len(open_)} of {len(ran)}"
    return ", ".join(f"{name} ran {_how_it_ran(row)}" for name, row in open_)


def _how_it_ran(row: SummaryRow) -> str:
    return {
        ProofVerdict.PARTLY: f"only partly in {row.precision}",
        ProofVerdict.NOT_ACTIVE: f"in fp32, NOT in {row.precision}",
        ProofVerdict.NOT_FP32: "in less than fp32",
    }.get(row.proof_verdict or ProofVerdict.UNKNOWN, "in an unknown precision")


def _agreement(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """How far the outputs of other engines are from torch's; empty if there are none."""
    found = [(name, row.agreement) for name, row in zip(names, rows) if row.agreement is not None]
    parts = [f"{name} {_DIFFERS[each.is_same]} ({each.summary})" for name, each in found[:NAMED_SETTINGS]]
    more = len(found) - len(parts)
    return ", ".join(parts) + (f", and {more} more (--details)" if more else "")


def _predictions(rows: Sequence[SummaryRow]) -> str:
    judged = [row.valid for row in rows if row.valid]
    if len(judged) == 1:
        return f"predictions {judged[0]}"
    if judged:
        counts = Counter(each.partition(":")[0] for each in judged)
        return "predictions: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    random = any(row.weights == WeightsKind.RANDOM for row in rows)
    return "predictions not judged" + (": random weights" if random else " (--validate)")


# Ratios


def times(found: stats.Interval) -> str:
    """``1.60 times``."""
    return formatting.ratio(found.value, found.low, found.high).partition("×")[0] + " times"


def bounds(found: stats.Interval) -> str:
    """``[1.50, 1.70]``."""
    return formatting.ratio(found.value, found.low, found.high).partition(" ")[2]


def _ratio(found: stats.Interval) -> str:
    text = formatting.ratio(found.value, found.low, found.high)
    return text.replace("×", "") if found.low > 0 else text.partition("×")[0]


def inverse(found: stats.Interval) -> stats.Interval:
    """Return the interval of 1 / x; an infinite bound becomes 0."""
    return stats.Interval(1 / found.value, 1 / found.high, 1 / found.low if found.low else float("inf"))


# Conditions


def conditions(shown: Sequence[ShownRow]) -> list[Condition]:
    """Return what may distort these rows, each code once, the most harmful first."""
    found: dict[str, list[tuple[ShownRow, WarningMessage]]] = {}
    for each in shown:
        for warning in each.row.warnings:
            found.setdefault(warning.code, []).append((each, warning))
    return [_condition(code, found[code], shown) for code in sorted(found, key=rank)]


def _condition(code: str, found: Sequence[tuple[ShownRow, WarningMessage]], shown: Sequence[ShownRow]) -> Condition:
    messages = [_PLACES.sub("", warning.message) for _, warning in found]
    hints = [warning.hint for _, warning in found]
    concerned = list({id(each): each for each, _ in found}.values())
    return Condition(code, rank(code)[0], concerns(concerned, shown), merged(messages), merged(hints))


def failures(shown: Sequence[ShownRow]) -> list[tuple[str, str]]:
    """Return which rows failed, with the reason; rows with the same reason together."""
    found: dict[str, list[ShownRow]] = {}
    for each in shown:
        for error in each.row.errors:
            found.setdefault(error, []).append(each)
    return [
        (", ".join(f"{each.row.workload} {each.row.label}" for each in rows), error) for error, rows in found.items()
    ]


def concerns(rows: Sequence[ShownRow], shown: Sequence[ShownRow]) -> str:
    """Name ``rows`` among all that are ``shown``: ``resnet50, ssd bf16``; empty if they are all of them."""
    if len(rows) == len(shown):
        return ""
    every = by_workload(shown)
    parts = []
    for workload, concerned in by_workload(rows).items():
        names = dict(zip(map(id, every[workload]), short_names(every[workload])))
        if len(concerned) == len(every[workload]):
            parts.append(workload)
        elif len(concerned) > NAMED_SETTINGS:
            of = f" of {workload}" if len(every) > 1 else ""
            parts.append(f"{len(concerned)} of {len(every[workload])} settings{of}")
        else:
            listed = ", ".join(names[id(each)] for each in concerned)
            parts.append(f"{workload} {listed}" if len(every) > 1 else listed)
    return "; ".join(parts)


def merged(texts: Sequence[str]) -> str:
    """Return one text for several: a number that differs becomes a range, other words that differ an ellipsis.

    >>> merged(["used 0.96 cores", "used 0.17 cores"])
    'used 0.17 to 0.96 cores'
    """
    different = list(dict.fromkeys(texts))
    shapes = {_NUMBER.sub("#", text) for text in different}
    if len(shapes) > 1:
        return reduce(_common, different)
    numbers = [_NUMBER.findall(text) for text in different]
    ranges = iter([_range(column) for column in zip(*numbers)])
    return _NUMBER.sub(lambda _: next(ranges), different[0])


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def _common(first: str, second: str) -> str:
    """What two texts share, with an ellipsis for each stretch in which they differ."""
    a, b = _TOKEN.findall(first), _TOKEN.findall(second)
    parts: list[str] = []
    for kind, start, end, _, _ in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append("".join(a[start:end]))
        elif not parts or parts[-1] != "…":
            parts.append("…")
    return "".join(parts)
