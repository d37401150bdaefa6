"""Every kind of document that a command shows, from results that are stored or made up, always the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import instances
from example_machine import CEILINGS, LIBRARIES, QUIET, SERVER
from fake_runs import MACHINE, WEIGHTS, changed, evidence, judgement, make, result_of, timing, warning
from generated_results import generation_run
from judgements import ANSWERED, CLASSIFIED, DETECTED
from load_results import load as load_of
from load_results import measured
from load_results import result as load_result
from pipelines import pipeline_run
from places import DATA
from proven_results import BF16, CLASSIFIER, FP32, PERFORMANCE, audited, checked, fleet, host, session_of, side, use
from stored_search import TUNING, searched

from modelzoo.cli import inventory
from modelzoo.cli.stored import rendered
from modelzoo.comparison.compare import Comparison, FailOn, Gate, Question, compare_interleaved, gate
from modelzoo.comparison.compare import compare as compared
from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.comparison.machines import Price
from modelzoo.document import Block, Section
from modelzoo.fleet.hosts import kinds
from modelzoo.frozen import replace
from modelzoo.records.equipment import Accelerator, AcceleratorUse, Copies, Reading
from modelzoo.records.evidence import Evidence, OperatorClass, OperatorUse, ProofSource, ProofVerdict, TimeShare
from modelzoo.records.fleet import FleetComparison, FleetHost, ShardingReport
from modelzoo.records.profile import AcceleratorReport, DecodingBytes, DoctorReport, Flops
from modelzoo.records.race import Exclusion, ExclusionKind, LeftOut, MachinePrice, Obstacle, Stage, StageKind
from modelzoo.records.run import Result
from modelzoo.records.run_report import DECODE, PREFILL, GenerationPhase
from modelzoo.records.serving import GeneratorPlace, LatencyBound
from modelzoo.records.timing import DEVICE, ISSUE, LATENCY, MODEL, UNDIVIDED, Series
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.stats.race import Choice
from modelzoo.views import circumstances, compare, load, throughput, tuning, validity
from modelzoo.views import fleet as fleets
from modelzoo.views.kinds import run_document, run_kernels
from modelzoo.warning import WarningCode, warning_for


def stored(name: str) -> Result:
    return store.read(DATA / "results" / f"{name}.json")


def run_of(result: Result, *, details: bool = False) -> list[Block]:
    """What ``modelzoo run`` shows of it."""
    kernels = run_kernels(result) if details else []
    return [*run_document(result, summary.rows(result), details=details), *kernels]


def several_workloads() -> Result:
    """Two workloads in two precisions: one faster in bf16, the other unproven, and one that failed."""
    runs = []
    for name, factor, verdict in (("resnet50", 0.5, ProofVerdict.ACTIVE), ("bert", 1.001, ProofVerdict.NOT_ACTIVE)):
        for setting, seconds, proof in (
            (Setting(), 0.08, ProofVerdict.FP32),
            (Setting("bf16"), 0.08 * factor, verdict),
        ):
            for number in range(4):
                samples = [seconds * (1 + 0.004 * number)] * 30
                found = (warning("OTHER_LOAD", "other programs used 1.20 cores during the run", "stop them"),)
                more = {"evidence": evidence(proof), "warnings": found if name == "bert" else ()}
                runs.append(make(samples, workload=name, setting=setting, round=number, **more))
    runs.append(make(None, workload="ssd", error="the worker was ended by SIGKILL: out of memory?"))
    return result_of(*runs)


def of_release(kernel: str, operators: dict[str, float]) -> Evidence:
    """An audit of one pass, whose Linear layers ran in ``kernel``, with the seconds of each operator."""
    linear = operators["aten::addmm"]
    use = OperatorUse(
        "aten::addmm", OperatorClass.LINEAR, (), kernel, "bf16", ProofSource.BOTH, 1, linear, 0.95 * linear
    )
    shares = tuple(TimeShare(name, seconds, 0.0, 1) for name, seconds in operators.items())
    audited = {"iterations": 1, "seconds": sum(operators.values()), "operators": (use,), "by_operator": shares}
    return replace(evidence(ProofVerdict.ACTIVE), **audited)


def releases() -> Result:
    """bf16 in two releases of torch: BERT in a reference kernel, ResNet50 with fewer copies."""
    runs = []
    brgemm, reference = "oneDNN brg_matmul:avx512_core_bf16", "oneDNN ref:any"
    audits = {
        ("bert", None): of_release(brgemm, {"aten::addmm": 0.08, "aten::copy_": 0.03, "aten::gelu": 0.01}),
        ("bert", "new"): of_release(reference, {"aten::addmm": 0.65, "aten::copy_": 0.03, "aten::gelu": 0.005}),
        ("resnet50", None): of_release(brgemm, {"aten::addmm": 0.02, "aten::copy_": 0.02}),
        ("resnet50", "new"): of_release(brgemm, {"aten::addmm": 0.02, "aten::copy_": 0.01}),
    }
    for (name, release), audit in audits.items():
        setting = Setting("bf16", python=f"/envs/{release}/bin/python" if release else None)
        for number in range(8):
            samples = [audit.seconds * (0.9 + 0.002 * number)] * 30
            runs.append(make(samples, workload=name, setting=setting, round=number, evidence=audit))
    return result_of(*runs)


def staged() -> Result:
    """A pipeline, in two processes."""
    columns = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}
    columns[UNDIVIDED] = [0.099] * 4
    return result_of(*(pipeline_run(columns, round=number) for number in (0, 1)))


def generated() -> Result:
    """A language model in two precisions, in three processes each."""
    runs = []
    for setting, factor in ((Setting(), 1.0), (Setting("bf16"), 0.7)):
        for number in range(3):
            level = factor * (1 + 0.01 * number)
            between = [0.04 * level, 0.042 * level]
            looks = {"decoding": DecodingBytes(538_000_000, 4.1e6), "phases": phases(setting.precision)}
            more = {"setting": setting, "round": number, "ceilings": CEILINGS, **({} if number else looks)}
            runs.append(generation_run(0.4 * level, between, **more))
    return result_of(*runs)


def phases(precision: str) -> tuple[GenerationPhase, ...]:
    """Both phases of a generation, of which decoding in fp32 did not run as asked for."""
    found = (ProofVerdict.FP32, ProofVerdict.NOT_FP32) if precision == "fp32" else (ProofVerdict.ACTIVE,) * 2
    flops = (Flops(12_000_000_000, 2_000_000_000), None)
    return tuple(GenerationPhase(*each) for each in zip((PREFILL, DECODE), map(evidence, found), ("", ""), flops))


GPU = Accelerator("cuda", 0, "NVIDIA H100", "9.0", "550.54.15", "CUDA 12.8, cuDNN 9.10.2", 80 << 30)
USE = AcceleratorUse(
    device=GPU,
    peak_memory=3 << 30,
    copies=Copies(1.5e-3, 0.2e-3),
    sensors="NVML",
    readings=(
        Reading("before", 0, mhz=345, watts=70, celsius=33),
        Reading("steady", 9, mhz=1980, watts=300, celsius=50),
        Reading("steady", 12, mhz=1755, watts=690, celsius=64, throttled=("power cap",)),
        Reading("after", 12, mhz=1980, watts=120, celsius=60),
    ),
    throttled_samples=(1, 2),
    joules_per_call=1.25,
    locked_mhz=1980,
)


def on_gpu(*, include_copies: bool = False) -> Result:
    """Calls that take 100 ms on a CPU, and 2 ms on a GPU, on which 1.9 ms of kernels are issued in 1.85 ms."""
    series = tuple(Series(name, (value,) * 30) for name, value in ((LATENCY, 2e-3), (ISSUE, 1.85e-3), (DEVICE, 1.9e-3)))
    timed = {"timing": replace(timing([2e-3]), series=series), "accelerator": USE}
    setting, runs = Setting(device="cuda:0", include_copies=include_copies), []
    for number in range(3):
        runs += [make([0.1] * 30, round=number), make(None, setting=setting, round=number, **timed)]
    return result_of(*runs)


def sides() -> tuple[Side, Side]:
    """Three sessions on each of two machines: of three rows one is faster, one the same, and one is missing."""
    machine = replace(MACHINE, cpu="Neoverse-V1")
    levels = (0.1, 0.1005, 0.0995)
    base = [
        session_of([("a", FP32, level), ("a", BF16, 0.06), ("b", FP32, 0.2)], day)
        for day, level in enumerate(levels, 1)
    ]
    other = [
        session_of([("a", FP32, 0.5 * level), ("a", BF16, 0.06)], day, machine=machine)
        for day, level in enumerate(levels, 11)
    ]
    return side("old", *base), side("new", *other)


def machines() -> tuple[Side, Side]:
    """What two machines serve, measured within one hour: the second one less."""
    rounds, bound = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0), LatencyBound(90, 0.5)
    neoverse = {"machine": replace(SERVER, cpu="Neoverse-N3")}
    other = instances.served(
        [34 * each for each in rounds], "2026-11-28T01:40:00+00:00", batches=(4, 1), bound=bound, runs=neoverse
    )
    base = instances.served([40 * each for each in rounds], "2026-11-28T01:05:00+00:00", batches=(1, 4), bound=bound)
    return side("x86", base), side("arm", other)


def comparison() -> list[tuple[Comparison, Gate]]:
    """Of these sides, with prices and conditions."""
    prices = (Price("old", 0.42, "EUR", "2026-01-01", "prices.csv"), Price("new", 0.31, "EUR"))
    found = compared(*sides(), Question(), prices)
    return [(found, gate(found, (FailOn("slower", 0.03), FailOn("not-comparable"))))]


def compared_text(form: str, *, details: bool) -> str:
    """The same as a file, so without colour."""
    return rendered(
        comparison(), form, lambda found, each: compare.document(found, each, details=details), Path("file")
    )


def search() -> Result:
    """A search with a winner, ties, and candidates that are out."""
    wrong = Exclusion(1, ExclusionKind.WRONG_OUTPUTS)
    left_out = (
        LeftOut("malloc", "tcmalloc", Obstacle.UNAVAILABLE, "missing"),
        LeftOut("malloc", "jemalloc", Obstacle.UNAVAILABLE, "missing"),
        LeftOut("thp", "on", Obstacle.UNAVAILABLE, "off"),
    )
    found = searched(excluded=(*TUNING.excluded, wrong), left_out=left_out)
    load = {"warnings": (warning("OTHER_LOAD", "other programs used 1.20 cores during the run", "stop them"),)}
    weights_of_one = {"weights": replace(WEIGHTS, sha256="other")}
    runs = []
    for each in found.runs:
        changes = {**(load if each.round == 3 else {}), **(weights_of_one if each.group == 1 else {})}
        runs.append(replace(each, report=changed(each.report, **changes)))
    return replace(found, runs=tuple(runs))


def throughput_of() -> Result:
    """One and four instances, the best again, and a price; an instance is slower than the others."""
    one, four = instances.configuration(1), instances.configuration(4)
    runs = []
    for number, factor in enumerate((1.0, 1.01, 0.99)):
        runs.append(instances.ran(0, one, number, [0.1 * factor]))
        runs.append(instances.ran(1, four, number, [0.125 * factor] * 3 + [0.25 * factor]))
    again = [instances.ran(0, one, 3 + number, [0.102], duration=100.0) for number in range(2)]
    return instances.result(
        [one, four],
        [*runs, *again],
        LatencyBound(90, 0.2),
        stages=(Stage(StageKind.CONFIRMATION, (0,), 2, None, 3),),
        choice=Choice(0, 0),
        price=MachinePrice(3.6, "USD"),
    )


def doctored() -> DoctorReport:
    """A good machine with a GPU, and something to mend."""
    found = (warning_for(WarningCode.SMT, threads=2, command="taskset -c $(lscpu -p=CPU,CORE | grep -v '^#' | sort)"),)
    return DoctorReport(
        machine=SERVER,
        libraries=LIBRARIES,
        usage=QUIET,
        ceilings=CEILINGS,
        ceilings_kept=False,
        warnings=found,
        accelerator=AcceleratorReport(GPU, CEILINGS, True),
    )


def load_at_one_rate() -> list[Block]:
    """One rate that is too high, and a generator without a core of its own."""
    found = measured(load_of(queries=662, rate=200.0))
    shared = tuple(replace(each, generator=GeneratorPlace((0, 1), False)) for each in found.sessions)
    return load.document(replace(found, sessions=shared))


def fleet_of() -> list[Block]:
    """Ten hosts, of which one is slower, and one that was lost."""
    odd = host(9, 0.106, replace(PERFORMANCE, governor="powersave"))
    lost = FleetHost("host-10", problem="the Dask worker is lost")
    hosts = tuple(FleetHost(f"host-{number}", result=f"host-{number}.json") for number in range(10))
    return fleets.comparison_document(FleetComparison((*hosts, lost), kinds(fleet(odd))))


def sharding_of() -> list[Block]:
    """Two hosts that judged."""
    hosts = FleetHost("host-0", items=500, seconds=61.0), FleetHost("host-1", items=500, seconds=60.0)
    processors = ("Neoverse-N2", "Neoverse-V1")
    return fleets.sharding_document([ShardingReport(0, "picture", 1000, 50, 3, hosts, processors)])


def check_of() -> list[Block]:
    """A check whose head is slower in one model, open in another, and unverified in a third."""
    noisy = [1.05, 0.97, 1.02, 0.99, 1.04, 0.98, 1.01, 1.03]
    steady = [1.08 + 0.002 * (number % 3) for number in range(8)]
    result = checked({"resnet50": steady, "bert": noisy, "ssd": noisy})
    kernels = {
        0: audited(use("brgconv:avx512_core"), use("brgemm:avx512_core", CLASSIFIER)),
        1: audited(use("jit:avx2", seconds=0.26), use("brgemm:avx512_core", CLASSIFIER, seconds=0.21)),
        5: evidence(ProofVerdict.UNKNOWN),
    }
    runs = []
    for each in result.runs:
        versions = {"torch": ("2.13.0", "2.14.1")[each.group % 2], "transformers": "4.57.0"}
        report = changed(each.report, versions=versions)
        if each.group in kernels:
            report = changed(report, evidence=kernels[each.group])
        runs.append(replace(each, report=report))
    valid = [
        replace(judgement(ValidityVerdict.VALID, 88.0, 87.9 - 0.2 * side), workload="bert", group=2 + side)
        for side in (0, 1)
    ]
    result = replace(result, runs=tuple(runs), validity=tuple(valid))
    found = compare_interleaved(StoredResult("check.json", result), ("base", "head"))
    judged = gate(found, (FailOn("slower", 0.03), FailOn("invalid")))
    return compare.check_document(result, found, judged, ("torch==2.13.0", "torch==2.14.1"))


VIEWS: dict[str, Callable[[], list[Block]]] = {
    "run": lambda: run_of(stored("mlp")),
    "run-details": lambda: run_of(stored("mlp"), details=True),
    "run-several": lambda: run_of(several_workloads()),
    "run-stages": lambda: run_of(staged()),
    "run-releases": lambda: run_of(releases()),
    "run-tokens": lambda: run_of(generated(), details=True),
    "run-gpu": lambda: run_of(on_gpu(), details=True),
    "run-failed": lambda: run_of(stored("failing")),
    "tune": lambda: tuning.document(search()),
    "throughput": lambda: throughput.document(throughput_of()),
    "load-search": lambda: load.document(measured(load_of(is_search=True, rate=None, repeats=2, queries=662))),
    "load-rate": load_at_one_rate,
    "validity": lambda: [block for entry in stored("bert").validity for block in validity.document(entry)],
    "validity-details": lambda: [
        block for entry in stored("bert").validity for block in validity.document(entry, details=True)
    ],
    "validity-tables": lambda: [Section(each.task, validity.tables(each)) for each in (CLASSIFIED, DETECTED, ANSWERED)],
    "validity-pictures": lambda: [block for entry in stored("ssdlite").validity for block in validity.document(entry)],
    "check": check_of,
    "fleet": fleet_of,
    "sharding": sharding_of,
    "doctor": lambda: circumstances.document(doctored()),
    "weights": lambda: inventory.document(
        [
            (
                "resnet50",
                "IMAGENET1K_V2",
                "98",
                "partial digest (8 hex digits), sha256 11ad3fa600000000…",
                "/cache/resnet50-11ad3fa6.pth",
            ),
            ("bert", "bert-large-uncased-whole-word-masking-finetuned-squad", "1340", "not here", "example/bert"),
        ],
        is_incomplete=True,
    ),
}
"""The documents that are printed as wide as the terminal, by the name of their snapshot."""

EXAMPLES = {
    **{path.stem: store.read(path) for path in sorted((DATA / "results").glob("[!e]*.json"))},
    "several": several_workloads(),
    "staged": staged(),
    "tune": search(),
    "throughput": throughput_of(),
    "load": load_result(measured(load_of(queries=662))),
}
"""A stored result of every command that measures."""
