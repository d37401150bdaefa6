"""What a search found: the answer, the steps to the winner, the candidates, what was left out; the winner's files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from modelzoo.document import Block, Line, Lines, Notices, Rows, Table, Tone, named
from modelzoo.engines import INSTALL, torchao_installation
from modelzoo.files import write_atomically
from modelzoo.formatting import counted, duration, significant
from modelzoo.plan import Goal
from modelzoo.records.race import PRIMITIVES, Exclusion, ExclusionKind, LeftOut, Obstacle, StageKind
from modelzoo.records.run import Result, RunReport
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import summary
from modelzoo.results import tuning as results
from modelzoo.results.proof import merged_proof
from modelzoo.results.speed import refused
from modelzoo.results.tuning import Candidate
from modelzoo.setting import option_name, value_text
from modelzoo.stats import Outcome
from modelzoo.views import proof, recipe
from modelzoo.views.differences import conditions, grouped, some
from modelzoo.views.judgement import reason_text
from modelzoo.views.speed import caveat, interval, outcome_text, ratio, reason, refusal
from modelzoo.warning import Severity

_SPEED_OF = {Goal.LATENCY: "speed", Goal.THROUGHPUT: "throughput"}
"""What a ratio of times per item is called."""
_OUT = {
    ExclusionKind.UNPROVEN: "precision not verified",
    ExclusionKind.NO_JUDGE: "not judged",
    ExclusionKind.RANDOM_WEIGHTS: "not judged",
    ExclusionKind.NO_CONVOLUTION: "no effect here",
    ExclusionKind.NO_LINEAR: "no effect here",
    ExclusionKind.FEW_PRIMITIVES: "no effect here",
}
"""Kinds of exclusion that have other words than their names."""
_IN_THE_SEARCH = (
    "In the search, each candidate was compared with the default in the same rounds; the best of many looks faster "
    "than it is. Only the confirmation says how fast the winner is."
)
_UNJUDGED = (ExclusionKind.NO_JUDGE, ExclusionKind.RANDOM_WEIGHTS, ExclusionKind.NOT_JUDGED)
_NOT_JUDGED = (
    "it could not win, because its predictions were not judged (below: why); --allow-unjudged lets it win all the same"
)


def document(result: Result) -> list[Block]:
    """Return what a search found, and what qualifies the confirmation of its winner."""
    part = results.confirmation(result)
    notices = conditions(summary.rows(part)) if part is not None else []
    return [*answer(result), *search(result), Notices([each for each in notices if each.severity < Severity.NOTE])]


def answer(result: Result) -> list[Block]:
    """Return the answer, and the steps to the winner."""
    chosen, tied, steps = results.of(result).choice, ties(result), results.steps(result)
    is_known = chosen is not None and not chosen.winner and any(each.speed for each in results.candidates(result))
    tone = Tone.BETTER if results.is_faster(result) else Tone.STRONG if is_known else Tone.OPEN
    said = [Line(f"{results.of(result).workload}: {headline(result)}", tone=tone)]
    said += [Line(tied, "ties")] if tied else []
    in_bf16 = (each for each in results.candidates(result) if result.requested[each.group].setting.precision == "bf16")
    if any(each.exclusion is not None and each.exclusion.kind in _UNJUDGED for each in in_bf16):
        said.append(Line(_NOT_JUDGED, "bf16"))
    of = Rows(steps)
    columns = (
        of.text("step", lambda each: each.label),
        of.number("latency", lambda each: interval(each.latency)),
        of.number("speedup", lambda each: ratio(each.speed)),
        of.number("gain of the step", lambda each: ratio(each.gain)),
    )
    table = Table("The steps from the default to the winner", columns)
    return [Lines(said, stands_out=True), *([table] if len(steps) > 1 else [])]


def search(result: Result) -> list[Block]:
    """Return every candidate, the fastest first, and what was left out; ``_excluded`` has the reasons."""
    candidates, shown = results.candidates(result), list[Block]()

    def tone(both: tuple[Candidate, object]) -> Tone:
        is_bad = both[0].exclusion is not None and both[0].exclusion.kind is not ExclusionKind.SLOWER
        return Tone.BAD if is_bad else Tone.PLAIN

    timed = [(each, each.speed) for each in candidates if each.speed is not None]
    if timed:
        tuning = results.of(result)
        aim = "latency of one batch" if tuning.goal is Goal.LATENCY else "time per item, whatever the batch"
        stages = [stage for stage in tuning.stages if stage.kind is StageKind.SEARCH]
        sizes = ", ".join(str(len(stage.entrants) - 1) for stage in stages) or "no"
        spent = f"{duration(tuning.spent)} of {duration(tuning.budget)}"
        title = f"{tuning.candidates - 1} candidates for the lowest {aim}; stages with {sizes} candidates; {spent}"
        of = Rows(sorted(timed, key=lambda both: -both[1].value))
        columns = (
            of.text("candidate", lambda both: both[0].label),
            of.number("rounds", lambda both: both[0].rounds),
            of.number("in the search", lambda both: ratio(both[1]) if both[0].rounds > 1 else f"{both[1].value:.2f}×"),
            of.text(
                "out",
                lambda both: _kind(both[0].exclusion) if both[0].exclusion else "tie" if both[0].is_tie else "",
                tone,
            ),
        )
        shown.append(Table(title, columns, _IN_THE_SEARCH))
    # What the grid does not contain here, with the reasons; those of several options are said once.
    reasons = grouped(
        (_obstacle(result, each), option_name(each.field) + (f"={each.value}" if each.value else ""))
        for each in results.of(result).left_out
    )
    out = [*_excluded(result, candidates), *((", ".join(names), reason) for reason, names in reasons.items())]
    title = "Candidates that are out, and what the grid does not contain here"
    return [*shown, named(out, title=title)] if out else shown


def headline(result: Result) -> str:
    """Return the answer in a sentence."""
    tuning = results.of(result)
    if tuning.choice is None:
        return "the search was interrupted before anything was chosen; --resume goes on with it"
    default = results.name(result, 0)
    if not any(each.speed for each in results.candidates(result)):
        return f"no candidate could be measured, so it is not known what is faster than the default, {default}"
    if not tuning.choice.winner:
        found = [(each, each.speed.value) for each in results.candidates(result) if each.speed is not None]
        best, _ = max(found, key=lambda both: both[1])
        had = f"{best.label}, had {ratio(best.speed)} its speed in {counted(best.rounds, 'round')}"
        return f"nothing is faster here than the default, {default}: the fastest of {len(found)} candidates, {had}"
    winner, speed = results.name(result, tuning.choice.winner), results.confirmed(result)
    if speed is None or speed.ratio is None:
        why = "they cannot be compared" if speed is not None else "there was no time to measure it again"
        because = reason(speed) if speed is not None else "give a larger --budget"
        return f"the fastest seemed to be {winner}, but {why}: {because}"
    said = f"{ratio(speed.ratio)} the {_SPEED_OF[tuning.goal]} of the default, measured again in new processes"
    if speed.verdict.outcome is Outcome.FASTER:
        return f"the fastest is {winner}: {said}{caveat(speed)}"
    return (
        f"nothing is significantly faster here than the default, {default}: {winner} seemed so, and has {said}, which "
        f"is {outcome_text(speed)} ({reason(speed)})"
    )


def ties(result: Result) -> str:
    """Say which candidates the search could not tell apart; empty if there were none."""
    chosen = results.of(result).choice
    if chosen is None or not chosen.ties:
        return ""
    told = {chosen.winner, 0} if results.is_faster(result) else {chosen.winner}  # 0: by the confirmation
    names = ", ".join(results.name(result, group) for group in (chosen.best, *chosen.ties) if group not in told)
    if not names:
        return ""
    winner = results.name(result, chosen.winner)
    if chosen.winner == chosen.best:
        return f"the search could not tell {names} from {winner}"
    return f"the search could not tell {names} from {winner}, which is the simplest of those that seem as fast"


def _excluded(result: Result, candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    """Why candidates are out, unless they are only slower; each reason is said once."""
    reasons = grouped(
        (f"{_kind(found)} ({why})" if (why := _reason(result, found)) else _kind(found), each.label)
        for each in candidates
        if (found := each.exclusion) is not None and found.kind is not ExclusionKind.SLOWER
    )
    return [(some(labels), reason) for reason, labels in reasons.items()]


def _kind(exclusion: Exclusion) -> str:
    return _OUT.get(exclusion.kind, exclusion.kind.value)


def _reason(result: Result, exclusion: Exclusion) -> str:
    """What the runs of the search, or the judgement, show against a candidate."""
    runs = results.search_runs(result, exclusion.entrant)
    if exclusion.kind is ExclusionKind.FAILED:
        return next((run.error for run in runs if run.error), "")
    if exclusion.kind is ExclusionKind.WRONG_OUTPUTS:
        last = max((run.round for run in runs), default=-1)
        found = refused([run for run in results.search_runs(result, 0) if run.round <= last], runs)
        return "; ".join(map(refusal, found))
    if exclusion.kind is ExclusionKind.UNPROVEN:
        reports = [run.report for run in runs if run.report is not None]
        return proof.sentence(merged_proof(reports)) or proof.NO_EVIDENCE
    if exclusion.kind in (ExclusionKind.NOT_VALID, ExclusionKind.NOT_JUDGED):
        entry = result.judged().get(exclusion.entrant)
        validity = entry.report.validity if entry is not None and entry.report is not None else None
        why = reason_text(validity) if validity is not None else entry.error if entry is not None else None
        if exclusion.kind is ExclusionKind.NOT_VALID:
            return why or "its predictions are not valid"
        return why or ValidityVerdict.CANNOT_JUDGE
    if exclusion.kind is ExclusionKind.FEW_PRIMITIVES:
        reports = [run.report for run in results.search_runs(result, 0) if run.report is not None]
        kernels = reports[0].observed.kernels if reports else None
        calls = sum(kernel.count for kernel in kernels.kernels) if kernels is not None else 0
        return f"a pass calls {calls} kernels, and oneDNN keeps {PRIMITIVES:,} primitives anyway"
    return {
        ExclusionKind.NO_JUDGE: "the workload does not say how its predictions are judged",
        ExclusionKind.RANDOM_WEIGHTS: "with random weights there are no predictions to judge",
        ExclusionKind.NO_CONVOLUTION: "the model has no convolution",
        ExclusionKind.NO_LINEAR: "the model has no Linear layer",
        ExclusionKind.NOT_MEASURED: "the budget does not reach so far down the list; give more time, or --vary less",
    }.get(exclusion.kind, "")


def _obstacle(result: Result, left_out: LeftOut) -> str:
    if left_out.obstacle is Obstacle.NOT_INSTALLED:
        if left_out.field == "recipe":
            reports = (run.report.provenance for run in result.runs if run.report is not None)
            torch = next((each.versions["torch"] for each in reports if "torch" in (each.versions or {})), None)
            return f"it is not installed: {torchao_installation(torch)}"
        install = INSTALL.get(left_out.value or "")
        return "it is not installed" + (f": {install}" if install else "")
    if left_out.obstacle is Obstacle.FIXED:
        value = value_text(getattr(result.requested[0].setting, left_out.field, None))
        return f"the call says {option_name(left_out.field)}={value}"
    return {
        Obstacle.NO_DATA: "its predictions must be valid on data of your own: give --data",
        Obstacle.NO_BF16: "this CPU has no instructions for bf16",
        Obstacle.ONE_CORE: "there is one core",
        Obstacle.QUOTA: "the control group's quota allows no more CPUs",
        Obstacle.ONE_HARDWARE_THREAD: "a core has one hardware thread here, or may use only one",
    }.get(left_out.obstacle, left_out.problem or "")


def winning_report(result: Result) -> RunReport | None:
    """A report of the setting that is recommended: the winner if it is faster, else the default."""
    tuning = results.of(result)
    group = tuning.choice.winner if tuning.choice is not None and results.is_faster(result) else 0
    return next((run.report for run in reversed(result.runs) if run.group == group and run.report is not None), None)


def speed_sentence(result: Result) -> str:
    """What is known of the speed of the recommended setting."""
    tuning, speed = results.of(result), results.confirmed(result)
    if speed is None or speed.ratio is None or not results.is_faster(result):
        return "the default: nothing was significantly faster on this machine"
    value, low, high = (significant(each, 3) for each in (speed.ratio.value, speed.ratio.low, speed.ratio.high))
    return f"{value} times ({low} to {high}) the {_SPEED_OF[tuning.goal]} of the default, {results.name(result, 0)}"


def write_files(result: Result, path: Path, workload: str, script: str) -> list[str]:
    """Write the files of the setting that is recommended; return lines that say how to use it.

    Args:
        result: of a complete search.
        path: the result's file.
        workload: what the command line calls it.
        script: how the workload gets a graph (``Workload.script``).

    If one cannot be written, a line says so.
    """
    report = winning_report(result)
    if report is None:
        return []
    said = speed_sentence(result)
    settings, code = path.with_suffix(".setting"), path.with_suffix(".py")
    setting = f"--setting {shlex.quote(recipe.words(recipe.explicit(report)))}"
    command = f"command line: modelzoo run {shlex.quote(workload)} {setting}"
    try:
        write_atomically(settings, recipe.settings_file(report, said))
        lines = recipe.python(report, said, script)
        if lines is not None:
            write_atomically(code, lines)
    except OSError as error:
        return [command, f"no settings file: cannot write {settings} or {code}: {error.strerror}"]
    return [
        command,
        f"settings file: {settings}, for --setting {shlex.quote('@' + str(settings))}",
        f"Python: {code}" if lines is not None else f"Python: see docs/engines.md for {report.setting.engine}",
    ]
