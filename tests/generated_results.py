"""Results of every kind, drawn from the types of the records around simulated measurements, for ``equal_output.py``.

``python tests/generated_results.py DIRECTORY COUNT`` writes them, the same ones for the same arguments. Times,
verdicts and numbers of processes come from the simulations that other tests use, so that intervals, comparisons and
searches mean something; what a report may hold besides is drawn field by field, and now and then anything else is. Of
each pair, the second result is the first one measured again: slower or faster, and changed here and there.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from example_machine import CEILINGS, LIBRARIES, QUIET, SERVER, TWO_CORES
from exported_results import SAME, exported
from fake_runs import MACHINE, changed, evidence, make, result_of
from instances import configuration, ran
from instances import result as throughput_result
from kept_sessions import beside
from load_results import load, measured
from load_results import result as load_result
from pipelines import pipeline_run
from stored_results import STORED, name
from stored_search import searched

from modelzoo import setting as settings
from modelzoo.errors import ModelzooError
from modelzoo.frozen import field_names, replace
from modelzoo.records.codec import encode_json
from modelzoo.records.doctor import DoctorReport
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot, PictureSource
from modelzoo.records.hosts import FleetComparison, ShardingReport
from modelzoo.records.load import LoadgenRun, LoadSession, NamedValue, Scenario
from modelzoo.records.partial import LayerError
from modelzoo.records.run import Latency, Result, Run, RunReport, SettingRequest, ValidityEntry, ValidityReport
from modelzoo.records.serving import LatencyBound
from modelzoo.records.throughput import Soak, SoakPoint
from modelzoo.records.timing import LATENCY, Design
from modelzoo.records.validity import Table, TableColumn, ValidityVerdict
from modelzoo.results import store
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import Severity, WarningCode, WarningMessage

TEXTS = ("conv", "a[1]", "<b>&", "größer × 5 %", "x = 1; y", "matmul_f32", "", "a long sentence of many words " * 4)
CHOICES: dict[str, Sequence[Any]] = {
    "precision": settings.choices("precision"),
    "requested": settings.choices("precision"),
    "bf16_method": settings.choices("bf16_method"),
    "mode": settings.choices("mode"),
    "backend": settings.choices("backend"),
    "malloc": settings.choices("malloc"),
    "thp": settings.choices("thp"),
    "engine": settings.choices("engine"),
    "device": ("cpu", "cuda", "npu:1"),
    "jpeg": (b"\xff\xd8\xff",),
    "code": [code.name for code in WarningCode],
}
"""Values of fields by their names."""
NUMBERS = (
    (r"share|fraction|p_value|recall|ap$|reference$|tested$|passed|margin|quantile", 0.0, 1.0),
    (r"percent$", 1.0, 100.0),
    (r"second|time|latenc|median|^at$|busy|median|p99|largest|limit|wait", 1e-4, 2.0),
    (r"flop|bytes_per|gb|mhz|rate|per_hour", 0.1, 4000.0),
    (r"memory|bytes|size_bytes", 1e6, 3e9),
    (r"exit_code", 0, 2),
    (r"round|group|configuration|rank|restarts|reused|differing", 0, 1),
    (r"core|thread|batch|instances|sockets|numa|logical|node|count|in_flight", 1, 8),
)
"""Ranges of numbers by a part of the field's name."""
OPTIONS = (
    Setting("bf16"),
    Setting("bf16", "fastmath"),
    Setting(mode="compile"),
    Setting(channels_last=True, malloc="tcmalloc"),
    Setting(engine="onnxruntime"),
    Setting(threads=2, batch=8),
    Setting(mode="script", backend="blas"),
    Setting("fp16", "autocast", device="cuda"),
)
STRUCTURE = {
    "workload",
    "group",
    "groups",
    "requested",
    "round",
    "configuration",
    "configurations",
    "setting",
    "format",
}
STRUCTURE |= {"version", "created", "places", "topology", "series", "values", "watched", "pipeline", "stages", "timing"}
STRUCTURE |= {
    "candidates",
    "choice",
    "runs",
    "sessions",
    "plan",
    "rows",
    "columns",
    "tables",
    "is_search",
    "report",
    "prepared",
}
STRUCTURE |= {"name", "loadgen"}
"""Fields that the other ones rely on: they are not changed by chance."""
OF_SESSION = {"machine", "libraries", "fingerprint", "reference", "weights", "inputs_digest"}
"""Fields that are the same in all processes of a session, or it could not be compared."""
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Draw(random.Random):
    """Values of types, by chance."""

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def value(self, kind: Any, field: str = "") -> Any:
        """A value of the annotation ``kind``, which fits the name of its ``field``."""
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Union:
            return None if type(None) in parts and self.chance(0.25) else self.value(self.choice(parts[:1]), field)
        if origin is tuple and parts[-1:] == (Ellipsis,):
            return tuple(self.value(parts[0], field) for _ in range(self.randrange(4)))
        if origin is tuple:
            return tuple(self.value(part, field) for part in parts)
        if origin is not None:
            return {self.value(parts[0], "key"): self.value(parts[1], field) for _ in range(self.randrange(3))}
        if field in CHOICES and kind in (str, bytes):
            return self.choice(CHOICES[field])
        return self.choice(list(kind)) if issubclass(kind, Enum) else self._single(kind, field)

    def _single(self, kind: type, field: str) -> Any:
        if kind is bool or kind is type(None):
            return self.chance(0.4) if kind is bool else None
        if kind in (int, float):
            low, high = next(((low, high) for part, low, high in NUMBERS if re.search(part, field)), (0, 20))
            return self.randint(int(low), int(high)) if kind is int else self.uniform(low, high)
        if kind is str:
            if re.search("started|ended|created|first|last|date", field):
                return (BEGIN + timedelta(seconds=self.randrange(10**6))).isoformat()
            return self.choice(TEXTS) if self.chance(0.4) else f"{field or 'text'} {self.randrange(4)}"
        return self.record(kind)

    def record(self, kind: Any, **given: Any) -> Any:
        """A record whose fields are drawn, except those that are ``given``; drawn again if it refuses them."""
        hints = {field: hint for field, hint in get_type_hints(kind).items() if field not in given}
        if kind in (Setting, ResolvedSetting):
            hints = {field: hint for field, hint in hints.items() if field in CHOICES or field in ("batch", "threads")}
        for _ in range(1000):
            try:
                return kind(**{field: self.value(hint, field) for field, hint in hints.items()}, **given)
            except (ModelzooError, ValueError):
                continue
        raise RuntimeError(f"no {kind.__name__} can be drawn")

    def changed(self, value: Any, probability: float) -> Any:
        """``value`` with some of its fields drawn again, however deep they are."""
        if isinstance(value, tuple):
            return tuple(self.changed(each, probability) for each in value)
        if not field_names(value) or isinstance(value, (Setting, ResolvedSetting)):
            return value
        hints = get_type_hints(type(value))
        fields = [each for each in field_names(value) if each not in OF_SESSION]
        found = {field: self.changed(getattr(value, field), probability) for field in fields}
        for field in fields:
            if field not in STRUCTURE and self.chance(probability):
                found[field] = self.value(hints[field], field)
        return replace(value, **found)

    def extras(self, kind: Any, *wanted: str, probability: float = 0.5) -> dict[str, Any]:
        """Some of the ``wanted`` fields of a record."""
        hints = get_type_hints(kind)
        for record in [hints[field] for field in ("prepared", "provenance", "observed") if field in hints]:
            hints.update(get_type_hints(record))
        return {field: self.value(hints[field], field) for field in wanted if self.chance(probability)}


def runs(draw: Draw, factor: float) -> Result:
    """What ``run`` stores: processes of some settings of some workloads, failed ones and judgements among them."""
    machine = draw.changed(draw.choice((MACHINE, SERVER)), draw.choice((0.0, 0.15)))
    shared: dict[str, Any] = {"machine": replace(machine, emulator=None), "libraries": draw.choice((None, LIBRARIES))}
    shared["ceilings"] = draw.choice((None, CEILINGS, TWO_CORES))
    shared["fingerprint"] = draw.choice((None, "f"))
    found, requested, entries, tidy = [], [], [], draw.chance(0.6)
    for workload in draw.sample(("toy", "mlp", "bert", "größe"), draw.randint(1, 3)):
        processes, level = draw.randint(4 * tidy, 7) or 1, draw.uniform(0.001, 0.3)
        for setting in (Setting(), *draw.sample(OPTIONS, draw.randint(0, 3))):
            group, own = len(requested), group_changes(draw, setting, tidy)
            requested.append(SettingRequest(workload, setting))
            speed = level / factor * draw.choice((1, 1, 0.99, 0.7, 0.4, 1.5))
            for number in range(processes):
                error = (
                    draw.choice(("it died: killed by signal 9", "no [kernel] for this")) if draw.chance(0.05) else None
                )
                steady = [speed * draw.uniform(0.99, 1.03) for _ in range(draw.choice((3, 12, 40)))]
                changes = {**shared, **own} if number == 0 or tidy or draw.chance(0.8) else shared
                changes["warnings"] = own["warnings"]
                run = make(
                    steady, workload=workload, setting=setting, group=group, round=number, error=error, **changes
                )
                found.append(beside(run, *(draw.uniform(0.01, 0.012) for _ in range(draw.randint(0, 4)))))
            if draw.chance(0.4):
                entries.append(judgement(draw, workload, group, setting, tidy))
    result = result_of(*found, requested=requested)
    designs = tuple(
        draw.record(Design, workload=each, looks=(2, 4), maximum=draw.choice((None, 4, 9)))
        for each in dict.fromkeys(each.workload for each in requested)
    )
    more = draw.extras(Result, "session", "commit")
    payload = Latency(designs, **draw.extras(Latency, "reference_load", "reference_seconds"))
    return replace(result, payload=payload, validity=tuple(entries), **more)


def group_changes(draw: Draw, setting: Setting, tidy: bool) -> dict[str, Any]:
    """What the reports of all processes of a setting hold beside times; ``tidy``: nothing that forbids comparisons."""
    drawn = ["flops", "bound", "profile", "usage", "accelerator", "items", "compile_seconds", "digest", "versions"]
    drawn += ["environment", "cpus", "kernels", "flops_problem", "profile_problem", "switches"]
    spoiling = ["evidence", "export", "agreement", "counts", "weights", "inputs_digest", "canary_verdict"]
    spoiling += ["evidence_problem", "agreement_problem"]
    found = draw.extras(RunReport, *drawn, *([] if tidy else spoiling), probability=0.35)
    if tidy or draw.chance(0.5):
        verdict = ProofVerdict.FP32 if setting.precision == "fp32" else ProofVerdict.ACTIVE
        full = draw.record(Evidence, verdict=verdict, requested=setting.precision, reference_share=0.0)
        found.update(evidence=draw.choice((full, evidence(verdict))), usage=QUIET, inputs_digest="def")
    if tidy and setting.engine != "torch":
        found.update(exported(SAME))
    codes = [code.name for code in WarningCode if not tidy or code.value[0] is not Severity.INVALIDATES]
    count = draw.choice((0, 0, 1, 3))
    found["warnings"] = tuple(draw.record(WarningMessage, code=draw.choice(codes)) for _ in range(count))
    return {**found, "engine": setting.engine}


def judgement(draw: Draw, workload: str, group: int, setting: Setting, tidy: bool = False) -> ValidityEntry:
    """A judgement of a setting, whose tables have cells for all of their columns."""
    resolved = draw.record(ResolvedSetting, precision=setting.precision)
    report = changed(draw.record(ValidityReport), setting=resolved) if draw.chance(0.85) else None
    if report is not None:
        tables = tuple(replace(table(draw), title=f"table {number}") for number in range(draw.randrange(3)))
        validity = replace(report.validity, workload=workload, tables=tables, shown=None, layers=None)
        report = replace(report, validity=validity)
        if tidy:
            report = replace(report, validity=replace(report.validity, verdict=ValidityVerdict.VALID))
    return draw.record(ValidityEntry, workload=workload, group=group, requested=setting, report=report)


def table(draw: Draw) -> Table:
    """A table with as many cells as columns in every row."""
    count = draw.randint(0, 4)
    columns = tuple(
        TableColumn(f"column {number}", tuple(draw.choice(TEXTS) for _ in range(count)))
        for number in range(draw.randint(1, 4))
    )
    return draw.record(Table, columns=columns)


def pipelines(draw: Draw, factor: float) -> Result:
    """What ``run --stages`` stores."""
    found: list[Run] = []
    in_flight, level, more = draw.choice((1, 1, 4)), draw.uniform(0.01, 0.3) / factor, draw.choice((0.98, 1.0, 1.05))
    for number in range(draw.randint(1, 6)):
        passes = [level * draw.uniform(0.99, 1.02) for _ in range(8)]
        parts = {"decode": 0.2, "model": 0.6, "answer": 0.2}
        columns = {stage: [more * part * each for each in passes] for stage, part in parts.items()}
        columns = {LATENCY: passes, **columns, "undivided": [each * 0.995 for each in passes]}
        found.append(pipeline_run(columns, in_flight=in_flight, round=number, warnings=()))
    return result_of(*found)


def search(draw: Draw, factor: float) -> Result:
    """What ``tune`` stores, at its end or before."""
    tuning = searched().payload
    fields = ("left_out", "excluded", "goal", "budget", "spent", "is_complete", "allow_unjudged", "varied")
    found = searched(**draw.extras(type(tuning), *fields, probability=0.3))
    if draw.chance(0.2):
        found = searched(choice=None, is_complete=False, stages=found.payload.stages[:2])
    changes = group_changes(draw, Setting(), draw.chance(0.7))
    engine = draw.choice(("torch", "torch", "onnxruntime", "openvino"))
    requested = tuple(replace(each, setting=each.setting.replace(engine=engine)) for each in found.requested)
    made = []
    for run in found.runs:
        assert run.report is not None
        report = changed(run.report, **changes, setting=run.report.setting.replace(engine=engine))
        made.append(replace(run, requested=run.requested.replace(engine=engine), report=scale(report, factor)))
    return replace(found, requested=requested, runs=tuple(made))


def scale(report: RunReport, factor: float) -> RunReport:
    """The same process on a machine that is faster by ``factor``."""
    assert report.timing is not None
    series = tuple(
        replace(each, values=tuple(value / factor for value in each.values)) for each in report.timing.series
    )
    return replace(report, timing=replace(report.timing, series=series))


def instances(draw: Draw, factor: float) -> Result:
    """What ``throughput`` stores."""
    sizes = draw.sample(((1, 1), (2, 1), (4, 1), (2, 2), (1, 4)), draw.randint(1, 4))
    batch = draw.choice((1, 8))
    requested = [configuration(count, cores, batch, group) for group, (count, cores) in enumerate(sizes)]
    level, rounds = draw.uniform(0.01, 0.4) / factor, draw.randint(1, 4)
    made = []
    for number in range(rounds):
        for index, each in enumerate(requested):
            errors = {0: "it died"} if draw.chance(0.06) else None
            times = [level * draw.uniform(0.97, 1.05) * each.instances**0.2 for _ in range(each.instances)]
            made.append(ran(index, each, number, times, duration=draw.choice((4.0, 20.0)), errors=errors))
    bound = draw.choice((None, LatencyBound(90, level * 1.1), LatencyBound(99, level), LatencyBound(99.9, 5.0)))
    result = throughput_result(requested, made, bound)
    more = draw.extras(type(result.payload), "price", "ceilings", "is_complete", "dropped", "is_search")
    if draw.chance(0.5):
        more["soak"] = draw.record(Soak, configuration=0, points=soak_points(draw, level))
    more["dropped"] = tuple(replace(each, configuration=len(requested) - 1) for each in more.get("dropped", ())[:1])
    firsts = tuple(
        make(None, setting=each.setting, group=group, **group_changes(draw, each.setting, draw.chance(0.7)))
        for group, each in enumerate(result.requested)
    )
    return replace(result, runs=firsts, payload=replace(result.payload, rounds=rounds, **more))


def soak_points(draw: Draw, level: float) -> tuple[SoakPoint, ...]:
    """Stretches of a minute, which may become slower, and need more memory."""
    drift, leak = draw.choice((0.0, 0.01)), draw.choice((0, 10**7))
    return tuple(
        draw.record(
            SoakPoint, at=60.0 * index, seconds=60.0, latency=level * (1 + drift * index), memory=10**9 + leak * index
        )
        for index in range(draw.choice((0, 2, 12)))
    )


def requests(draw: Draw, factor: float) -> Result:
    """What ``load`` stores: of a server, of all requests at once, or one after the other."""
    scenario, is_search = draw.choice((Scenario.SERVER, Scenario.SERVER, *Scenario)), draw.chance(0.4)
    common = {"instances": draw.choice((1, 1, 2)), "batch": draw.choice((1, 4)), "repeats": draw.randint(1, 2)}
    bound, rate = draw.choice((LatencyBound(99.0, 0.05), LatencyBound(90.0, 0.012))), draw.choice((30.0, 90.0, 400.0))
    if scenario is Scenario.SERVER:
        requested = {"rate": None if is_search else rate, "bound": bound, "is_search": is_search}
    else:
        common["instances" if scenario is Scenario.SINGLE_STREAM else "repeats"] = 1
        requested = {"rate": None, "bound": None, "scenario": scenario}
    planned = load(**{**common, **requested, "queries": draw.choice((60, 500, 1100))})
    found = measured(planned, seconds=0.01 / factor, spread=draw.choice((0.05, 0.6)), slower=0.05)
    if found.runs and draw.chance(0.4):
        names = draw.sample(("mean", "p50", "p90", "p99", "requests/s"), 3)
        values = tuple(NamedValue(each, draw.uniform(0.01, 0.02)) for each in names)
        found = replace(found, loadgen=draw.record(LoadgenRun, run=found.runs[0], values=values))
    reports = [replace(each, **draw.extras(LoadSession, "reports", "generator")) for each in found.sessions]
    return load_result(replace(found, sessions=tuple(reports), is_complete=draw.chance(0.8)))


def sharded(draw: Draw, factor: float) -> Result:
    """What ``fleet validate`` stores."""
    requested = tuple(SettingRequest("toy", each) for each in (Setting("bf16"), Setting("bf16", "cast")))
    entries = tuple(judgement(draw, "toy", group, each.setting) for group, each in enumerate(requested))
    sharding = tuple(draw.record(ShardingReport, group=group) for group in range(draw.randint(1, 2)))
    return Result(("modelzoo", "fleet", "validate"), BEGIN.isoformat(), requested, validity=entries, sharding=sharding)


KINDS = (
    ("run", runs),
    ("run-stages", pipelines),
    ("run", runs),
    ("throughput", instances),
    ("load", requests),
    ("run", runs),
    ("tuning", search),
    ("run", runs),
    ("run-sharded", sharded),
    ("run", runs),
)
"""What is generated in turn; the name up to the dash says what the result is."""


def pair(number: int) -> tuple[str, Result, Result]:
    """A kind, a result of it, and the same measured again."""
    kind, build = KINDS[number % len(KINDS)]
    probability = (0.0, 0.002, 0.01, 0.03)[number // 3 % 4]
    first = Draw(number).changed(build(Draw(number), 1.0), probability)
    factor = Draw(number).choice((1.0, 1.02, 1.3, 0.7, 2.5))
    again = Draw(number).changed(build(Draw(number), factor), probability)
    again = Draw(-number - 1).changed(again, 0.001)
    day = BEGIN + timedelta(days=number % 25, hours=number)
    dates = [(day + timedelta(minutes=each)).isoformat(timespec="seconds") for each in (0, 90)]
    return kind, replace(first, created=dates[0]), replace(again, created=dates[1])


def survives(path: Path, result: Result) -> bool:
    """Whether a result can be stored and read again."""
    try:
        store.write(result, path)
        store.read(path)
    except (ModelzooError, ValueError):
        path.unlink(missing_ok=True)
        return False
    return True


def write(directory: Path, count: int) -> None:
    """Write the stored results of the tests, ``count`` generated ones, and other records that commands show."""
    for part in ("results", "doctor", "fleet", "exhibits", "histories"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    for stored in STORED:
        data = stored.read_bytes()
        path = directory / "results" / f"run-stored-{name(stored)}.json"
        path.write_bytes(gzip.decompress(data) if stored.suffix == ".gz" else data)
    number = written = 0
    while written < count:
        kind, *results = pair(number)
        paths = [directory / "results" / f"{kind}-{number:04}{letter}.json" for letter in "ab"]
        if not all(survives(path, result) for path, result in zip(paths, results)):
            for path in paths:
                path.unlink(missing_ok=True)
        else:
            written += 2
        number += 1
    for number in range(max(2, count // 10)):
        write_others(Draw(number), directory, number)


def write_others(draw: Draw, directory: Path, number: int) -> None:
    """Write what ``doctor``, ``fleet run`` and ``validate`` show, and five sessions of one call."""
    report = draw.record(DoctorReport, machine=SERVER, libraries=LIBRARIES, usage=QUIET)
    warnings = tuple(draw.record(WarningMessage) for _ in range(draw.randrange(4)))
    report = replace(report, ceilings=draw.choice((None, CEILINGS, TWO_CORES)), warnings=warnings)
    (directory / "doctor" / f"{number:03}.json").write_bytes(encode_json(draw.changed(report, 0.02 * (number % 4))))
    kinds = draw.record(FleetComparison)
    (directory / "fleet" / f"{number:03}.json").write_bytes(encode_json(kinds))
    found = tuple(draw.record(LayerError) for _ in range(draw.randint(1, 9)))
    layers = draw.record(LayerErrorPlot, layers=found, first_suspect=draw.choice((None, 0)))
    exhibits = [Exhibit("layers.png", layer_errors=layers), pictures(draw)]
    exhibits.append(Exhibit("top5.csv", csv=CsvRows(table(draw).columns, ())))
    (directory / "exhibits" / f"{number:03}.json").write_bytes(encode_json(exhibits))
    if number % 4 == 0:
        folder = directory / "histories" / f"h{number:02}"
        folder.mkdir()
        for day in range(5):
            session = replace(runs(Draw(number // 8), (1.3 if number % 8 else 1.0) * (1 + 0.02 * day)), session=None)
            created = (BEGIN + timedelta(days=day)).isoformat(timespec="seconds")
            store.write(replace(session, created=created), folder / f"session-{day}.json")


def pictures(draw: Draw) -> Exhibit:
    """Detections in the built-in photograph."""

    def drawn() -> DrawnDetections:
        boxes = tuple((10.0 * number, 20.0, 60.0 + 10 * number, 90.0) for number in range(draw.randrange(4)))
        return DrawnDetections(boxes, *zip(*((0.9, number, f"class {number}") for number, _ in enumerate(boxes))))

    matches = get_type_hints(DetectionPicture)["matches"]()
    source = PictureSource(crop=(0, 0, 200, 120))
    found = DetectionPicture(source, (200, 120), drawn(), drawn(), matches, 0.3, "fp32", "tested")
    return Exhibit("picture.jpg", detections=found)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
