"""The two sides of a comparison: which results belong together, and what each of them measured. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Optional

from modelzoo.comparison.machines import machines_of
from modelzoo.comparison.model import Obstacle, Side, SideSetting, StoredResult
from modelzoo.comparison.pairing import words
from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run, ValidityEntry
from modelzoo.results.session_levels import work_key


def make_side(name: str, results: Sequence[StoredResult], allowed: Collection[Obstacle] = ()) -> Side:
    """Return the side that consists of these sessions, oldest first.

    Args:
        name: how the output calls it.
        results: at least one.
        allowed: what may differ between the sessions: weights or inputs.

    Raises:
        InputError: nothing was measured, or not by 'modelzoo run', or the results are not sessions of the same work by
            the same software on one machine.
    """
    side = Side(name, tuple(sorted(results, key=lambda each: each.result.created)))
    for stored in side.results:
        _check_timed_alone(name, stored)
    if not any(stored.result.runs for stored in side.results):
        raise InputError(f"{name}: nothing was measured in {_paths(side)}; give results of 'modelzoo run'")
    for number, stored in enumerate(side.results):
        _check_same(side.results[0], stored, allowed)
        for before in side.results[:number]:
            if before.result == stored.result:
                raise InputError(f"{before.path} and {stored.path} hold the same session; leave one of them out")
    if len(machines_of(side)) > 1:
        raise InputError(f"{name}: {_paths(side)} were measured on different machines; compare them as sides")
    return side


def _check_timed_alone(name: str, stored: StoredResult) -> None:
    """Refuse what instances measured together: their runs tell what they were, without timing."""
    if stored.result.throughput is not None:
        command, hint = "throughput", "; for the cost per million, give --price to 'modelzoo throughput'"
    elif stored.result.load is not None:
        command, hint = "load", ""
    else:
        return
    raise InputError(
        f"{name}: {stored.path} is a result of 'modelzoo {command}', and only those of 'modelzoo run' can be compared; "
        f"'modelzoo report' shows it{hint}"
    )


Key = tuple[str, tuple[tuple[str, str], ...], int]
"""Workload, setting as ``pairing.words`` has it, and a number that counts equal settings of one result."""


def _check_same(first: StoredResult, second: StoredResult, allowed: Collection[Obstacle]) -> None:
    """Check that two results are sessions of the same work by the same software; raises ``InputError``."""
    before, after = _groups(first.result), _groups(second.result)
    if before.keys() != after.keys():
        raise InputError(
            f"{first.path} and {second.path} hold different workloads or settings, so they are not sessions of one "
            "side; compare them as sides"
        )
    here, there = _work(first.result, allowed), _work(second.result, allowed)
    for key, group in before.items():
        mine, theirs = here.get(group), there.get(after[key])
        if mine is not None and theirs is not None and mine != theirs:
            raise InputError(
                f"{first.path} and {second.path} ran {key[0]} with different software, weights or inputs, so they "
                "are not sessions of one side; compare them as sides"
            )


def _groups(result: Result) -> dict[Key, int]:
    """The groups of a result by what was asked for."""
    found: dict[Key, int] = {}
    for group, asked in enumerate(result.asked):
        key = (asked.workload, tuple(words(asked.setting).items()), 1)
        while key in found:
            key = (*key[:2], key[2] + 1)
        found[key] = group
    return found


def _work(result: Result, allowed: Collection[Obstacle]) -> dict[int, str]:
    """What each group ran, as its first finished process says; what may differ is left out."""
    found: dict[int, str] = {}
    for run in result.runs:
        report = run.report
        if report is None or run.group in found:
            continue
        if Obstacle.INPUTS in allowed:
            report = replace(report, inputs_digest=None)
        if Obstacle.WEIGHTS in allowed:
            weights = replace(report.prepared.weights, sha256="")
            report = replace(report, prepared=replace(report.prepared, weights=weights))
        found[run.group] = work_key(report)
    return found


def _paths(side: Side) -> str:
    paths = [stored.path for stored in side.results]
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]}"


def settings_of(side: Side) -> tuple[SideSetting, ...]:
    """Return what ``side`` measured: one entry per workload and setting that has runs, in the order asked for.

    The sessions need not have asked for the settings in the same order. Of equal settings, the first of one session
    belongs to the first of the others.
    """
    results = [stored.result for stored in side.results]
    placed = [_groups(each) for each in results]
    runs = [_runs(each) for each in results]
    judged = [each.judged() for each in results]
    found = []
    for key, first in placed[0].items():
        groups = [each[key] for each in placed]
        ran = [index for index, group in enumerate(groups) if group in runs[index]]
        if ran:
            found.append(
                SideSetting(
                    workload=key[0],
                    asked=results[0].asked[first].setting,
                    label=results[0].label(first),
                    sessions=tuple(runs[index][groups[index]] for index in ran),
                    results=tuple(results[index] for index in ran),
                    groups=tuple(groups[index] for index in ran),
                    validity=_latest(each.get(group) for each, group in zip(judged, groups)),
                )
            )
    return tuple(found)


def _runs(result: Result) -> dict[int, tuple[Run, ...]]:
    return {group: tuple(runs) for group, runs in result.groups().items()}


def _latest(entries: Iterable[Optional[ValidityEntry]]) -> Optional[ValidityEntry]:
    return next((entry for entry in reversed(list(entries)) if entry is not None), None)
