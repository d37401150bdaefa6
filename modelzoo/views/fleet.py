"""What is printed of a fleet: who judged what, which hosts were compared, and which of them is odd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from modelzoo.document import Block, Column, Rows, Table, known, lines
from modelzoo.formatting import duration, significant
from modelzoo.records.fleet import FleetComparison, HostDifference, HostKind, ShardingReport
from modelzoo.records.run import Result
from modelzoo.results.throughput import Row, of, recommendation, rows
from modelzoo.views.comparison import values_text
from modelzoo.views.judgement import plural


def sharding_document(reports: Sequence[ShardingReport]) -> list[Block]:
    """Return the hosts that judged a data set, and what tells them apart."""
    found: list[Block] = []
    for report in reports:
        hosts, items = Rows(report.hosts), plural(report.item_name)
        columns = (
            hosts.text("host", lambda host: host.host),
            hosts.number(f"{items} judged", lambda host: host.items),
            hosts.number("time", lambda host: duration(host.seconds)),
            hosts.number(
                f"{items}/s", lambda host: significant(host.items / host.seconds, 3) if host.seconds else None
            ),
        )
        found += [Table("Hosts", columns), lines(*sharding_notes(report))]
    return found


def sharding_notes(report: ShardingReport) -> list[str]:
    """Say how much was finished before, and on which processors and in which precision it was judged."""
    noun = plural(report.item_name)
    found = [f"{report.items} {noun} in {report.shards} shards; {report.reused} of them were finished before."]
    for each in report.otherwise:
        model = "reference" if each.of_reference else "model under test"
        other, first = (
            "nothing" if verdict is None else verdict.replace("_", " ").lower()
            for verdict in (each.verdict, each.first_verdict)
        )
        found.append(
            f"The {each.check} of the {model} says {other} on host {each.host}, and {first} on host "
            f"{each.first_host}: not all predictions have the same precision."
        )
    if len(report.processors) > 1:
        found.append(
            f"The hosts have different processors ({', '.join(report.processors)}), whose kernels may round "
            "differently."
        )
    return found


def open_text(address: str) -> str:
    """Warn of a cluster that whoever can reach it can use."""
    return (
        f"warning: {address} is neither on loopback nor tls://: whoever can reach the Dask scheduler, or the port of a "
        "worker, can run any program on these hosts. Use a network that you trust, or TLS (docs/trust.md)."
    )


def ticks_text(hosts: Sequence[str]) -> str:
    """Warn of Dask workers that disturb what they time."""
    return (
        f"warning: the idle Dask worker wakes up often on {', '.join(hosts)}, which may take a few per cent of a core "
        "from what is timed there; start workers with the variables of docs/scale.md."
    )


def comparison_document(found: FleetComparison) -> list[Block]:
    """Return every host, how those of each kind compare, and what is different about an odd one."""
    every = Rows(found.hosts)
    hosts = (
        every.text("host", lambda each: each.host),
        every.text("result", lambda each: each.result or f"none: {each.problem}"),
    )
    kinds = [Table(kind.name, kind_columns(kind)) for kind in found.kinds if kind.levels]
    return [Table("Hosts", hosts), *kinds, lines(*comparison_notes(found))]


def kind_columns(kind: HostKind) -> list[Column]:
    """Return one row per host of a kind: its latency against the others', in the mean and in each setting."""
    found = {(each.host, each.subject): each for each in kind.levels}
    hosts = Rows(host for host in kind.hosts if any(host == each.host for each in kind.levels))

    def cell(host: str, subject: str) -> str | None:
        level = found.get((host, subject))
        if level is None:
            return None
        ends = f" [{level.low:.3f}, {level.high:.3f}]" if level.high < 1e9 else " [unknown]"
        return f"{level.ratio:.3f}{'' if subject else ends}{' *' if level.odd else ''}"

    subjects = dict.fromkeys(each.subject for each in kind.levels if each.subject)
    return [
        hosts.text("host", str),
        *known(
            hosts.number("time ÷ the others'", lambda host: cell(host, "")),
            hosts.number("p", lambda host: f"{found[host, ''].p_value:.2g}" if (host, "") in found else None),
        ),
        *(hosts.number(subject, partial(cell, subject=subject)) for subject in subjects),
    ]


def comparison_notes(found: FleetComparison) -> list[str]:
    """Name each odd host with what is different about it, and say what the comparison rests on."""
    notes = []
    for kind in found.kinds:
        odd = list(dict.fromkeys(each.host for each in kind.levels if each.odd))
        notes += [odd_line(kind, host) for host in odd]
        if kind.uncompared is not None:
            count = "one host" if len(kind.hosts) == 1 else "two hosts"
            why = {
                "nothing was measured": "nothing was measured on these hosts",
                "fewer than three hosts": f"{count} of this kind, and it takes three to say which one is odd",
                "fewer than three were timed": "fewer than three of these hosts timed anything",
                "no setting was timed on three": "no setting was timed on three of these hosts",
            }[kind.uncompared]
            notes.append(f"{kind.name} ({', '.join(kind.hosts)}): {why}.")
        elif not odd:
            notes.append(f"{kind.name}: none of {len(dict.fromkeys(each.host for each in kind.levels))} hosts is odd.")
        for each in kind.missing:
            hosts = ", ".join(each.hosts)
            is_all = each.subject is None
            notes.append(
                f"Nothing was timed on {hosts}." if is_all else f"On {hosts}, {each.subject} was not timed to the end."
            )
        if kind.unlike:
            notes.append(f"What makes {', '.join(kind.hosts)} another kind: {'; '.join(map(_instead, kind.unlike))}.")
        if kind.spread is not None:
            notes.append(
                f"{kind.name}: hosts differ by {100 * kind.spread:.2g} %, standard deviation. p is corrected "
                "for all hosts and settings; * marks a setting in which a host is odd."
            )
    if len(found.kinds) > 1:
        notes.append(
            "Hosts of different kinds are not compared with each other; 'modelzoo compare' compares results of "
            "'modelzoo fleet run'."
        )
    return notes


def _instead(difference: HostDifference) -> str:
    return f"{difference.name} {values_text(difference.here)} instead of {values_text(difference.others)}"


def total_line(results: Sequence[Result]) -> str:
    """Say how much all hosts serve together, with the configuration of instances that serves most.

    The throughputs of hosts may be added, unlike those of instances on one host: hosts share nothing.

    Args:
        results: of ``modelzoo throughput``, one per host, at least one.
    """
    unit = of(results[0]).unit
    hosts = f"{len(results)} hosts together" if len(results) > 1 else "1 host"
    recommended = [recommendation(result) for result in results]
    names = {each.row.configuration.name for each in recommended if each is not None and each.row.throughput}
    unflattered = [
        each.row.throughput.value
        for each, result in zip(recommended, results)
        if each is not None and each.backing != "unconfirmed" and _serves(each.row, result) and each.row.throughput
    ]
    if len(names) == 1 and len(unflattered) == len(results):
        return f"{hosts}: {significant(sum(unflattered))} {unit}/s, the sum of {names.pop()} on each."
    by_host = [
        {
            row.configuration.name: row.throughput.value
            for row in rows(result)
            if _serves(row, result) and row.throughput
        }
        for result in results
    ]
    totals = {name: sum(host[name] for host in by_host) for name in by_host[0] if all(name in host for host in by_host)}
    if not totals:
        return "No configuration met the bound on every host and was measured to the end, so there is no total."
    best = max(totals, key=totals.__getitem__)
    chosen = "" if len(totals) == 1 else "; it comes from the rounds that chose it, so it is not confirmed"
    return f"{hosts}: {significant(totals[best])} {unit}/s, the sum of {best} on each{chosen}."


def _serves(row: Row, result: Result) -> bool:
    """Whether it was measured to the end, and is known to meet the bound if there is one."""
    return row.is_final and (of(result).bound is None or row.meets is True)


def odd_line(kind: HostKind, host: str) -> str:
    """Say how odd a host is, and why: "host 3 is 6.1 % slower [4.2, 8.0]; governor powersave instead of …"."""
    levels = [each for each in kind.levels if each.host == host and each.odd]
    worst = next((each for each in levels if not each.subject), levels[0])
    sign, direction = (1, "slower") if worst.ratio > 1 else (-1, "faster")
    amount, *ends = (100 * sign * (each - 1) for each in (worst.ratio, worst.low, worst.high))
    where = f" in {worst.subject}" if worst.subject else ""
    interval = ", ".join(significant(each, 2) for each in sorted(ends))
    text = f"host {host} is {significant(amount, 2)} % {direction}{where} [{interval}]"
    differences = [_instead(each) for each in kind.differences if each.host == host]
    return f"{text}; {'; '.join(differences) or 'nothing that was recorded is different about it'}"
