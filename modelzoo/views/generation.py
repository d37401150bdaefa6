"""The tokens of language models as a table and in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelzoo.document import Rows, Table, known
from modelzoo.formatting import MISSING, counted, share, significant
from modelzoo.results.generation import DecodingRead, GenerationLevels
from modelzoo.results.summary import SummaryRow
from modelzoo.views import proof
from modelzoo.views.differences import full_names
from modelzoo.views.intervals import interval, rate, rounded_value

TITLE = "Tokens"
READS = "reads: weights and cache ÷ TPOT, and their share of the bandwidth of a copy"


def table(shown: Sequence[SummaryRow]) -> Table:
    """One row for each setting that generates tokens; none of them, no rows."""
    names = full_names(shown, with_workload=False)
    of = Rows((row.workload, name, row.generation) for row, name in zip(shown, names) if row.generation is not None)
    several = len({workload for workload, *_ in of.rows}) > 1
    columns = known(
        of.text("workload", lambda row: row[0] if several else None),
        of.text("setting", lambda row: row[1]),
        of.number("TTFT", lambda row: interval(row[2].first_token)),
        of.number("TPOT", lambda row: interval(row[2].per_token)),
        of.number("prefill tok/s", lambda row: rate(row[2].prefill_rate)),
        of.number("decode tok/s", lambda row: rate(row[2].decode_rate)),
        of.number("output tok/s", lambda row: rate(row[2].output_rate)),
        of.number("reads GB/s", lambda row: read(row[2])),
    )
    made = dict.fromkeys(
        f"prompt of {counted(each.prompt_tokens, 'token')}, {each.new_tokens} new ones, batch {each.batch}"
        for *_, each in of.rows
    )
    meanings = "TTFT: time to the first token, with the prefill; TPOT: mean time of each other token"
    reads = f"; {READS}" if any(each.read for *_, each in of.rows) else ""
    return Table(TITLE, columns, f"{' or '.join(made)}; {meanings}; tok/s: of the whole batch{reads}")


def read(found: GenerationLevels) -> str:
    """``12.6 (61 %)``: what decoding reads, and its share of the bandwidth."""
    if found.read is None:
        return MISSING
    reached, part = found.read.gigabytes_per_second, found.read.share
    return rounded_value(reached) + ("" if part is None else f" ({share(part, 0)})")


def read_text(found: DecodingRead, device: str) -> str:
    """What a step reads, and how that compares with what a copy moves."""
    reached = significant(found.gigabytes_per_second.value, 3)
    weights, cache = f"{found.found.weights / 1e6:.0f} MB of weights", f"{found.found.cache / 1e6:.1f} MB of cache"
    said = f"a step of decoding reads {weights} and {cache} at least: {reached} GB/s"
    if found.bandwidth is None or found.share is None:
        return f"{said}; {measure_first(device, 'bandwidth')}"
    copied = significant(found.bandwidth, 3)
    return f"{said}, {share(found.share, 0)} of the {copied} GB/s that a copy reads and writes here"


def measure_first(device: str, limit: str) -> str:
    """What has to be measured before a speed can be compared with a limit of the device."""
    command, whose = ("", "this machine's") if device == "cpu" else (f" --device {device}", f"{device}'s")
    return f"run 'modelzoo doctor{command}' once to compare it with {whose} {limit}"


def phase_lines(found: GenerationLevels) -> Iterator[str]:
    """What proves the precision of each phase, and how close the prefill came to the peak."""
    for phase in found.phases:
        if phase.evidence is not None:
            yield f"{phase.name}: {proof.audit(phase.evidence)}"
        elif phase.evidence_problem:
            yield f"{phase.name}: {phase.evidence_problem}"
    if found.prefill_gflops is not None:
        reached = found.prefill_gflops.value
        said = f"prefill: {significant(reached, 3)} GFLOP/s"
        yield said + (f", {share(reached / found.prefill_peak, 0)} of the measured peak" if found.prefill_peak else "")
