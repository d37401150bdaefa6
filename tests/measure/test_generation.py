"""Generating tokens: what a sample holds, and measuring a workload from its preparation to its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evidence_samples import sentence
from measure.test_measurement import report_of
from simulated_device import MILLISECOND, SimulatedDevice
from toy_workloads import RANDOM

from modelzoo.engines.torch.devices import digest as digest_of
from modelzoo.errors import UsageError
from modelzoo.measure.pipeline import Generating, GenerationClock
from modelzoo.measure.preparation import prepare
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.protocol import PrepareJob
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    Generated,
    Series,
    Timing,
)
from modelzoo.setting import Setting
from modelzoo.workload import Generation, Workload
from modelzoo.workload.discovery import load_workload
from modelzoo.workload.generation import generate

pytestmark = pytest.mark.usefixtures("restored")


def scores(token: int) -> Any:
    """Logits whose most likely token is known."""
    return SimpleNamespace(argmax=lambda dimension, keepdim: token)


def counting(reset: list[Any]) -> Generation:
    """The state is all that was seen, and the next token is one more than the last."""

    def prefill(forward: Any, *prompt: int) -> tuple[Any, list[int]]:
        forward(20)
        return scores(prompt[-1] + 1), list(prompt)

    def step(forward: Any, token: int, state: list[int]) -> tuple[Any, list[int]]:
        forward(3 + len(state) / 10)
        return scores(token + 1), [*state, token]

    return Generation(2, 4, prefill, step, reset.append)


def test_each_token_is_fed_back_until_there_are_enough() -> None:
    """Prefill gives the first one, a step each other one; the state is reset after the last."""
    reset: list[Any] = []
    done: list[int] = []
    tokens = generate(counting(reset), lambda milliseconds: None, (5, 6), lambda: done.append(len(reset)))
    assert tokens == (7, 8, 9, 10)
    assert done == [0, 0, 0, 0]
    assert reset == [[5, 6, 7, 8, 9]]


@pytest.mark.parametrize(("prompt", "new"), [(0, 5), (3, 1)])
def test_a_generation_has_a_prompt_and_two_tokens(prompt: int, new: int) -> None:
    """Otherwise there is no time per output token."""
    with pytest.raises(UsageError, match=f"at least 2 new tokens, not {prompt} and {new}; correct generate"):
        Generation(prompt, new, lambda: (None, None), lambda *given: (None, None))


def clock_on(device: SimulatedDevice) -> GenerationClock:
    """A clock of four tokens on ``device``: prefill takes 20 ms, the steps 3.2, 3.3 and 3.4."""
    model = SimpleNamespace(call=lambda milliseconds: device.launch(takes=round(milliseconds * MILLISECOND)))
    return GenerationClock(Generating(counting([]), model, (5, 6)), device)


def test_a_generation_is_the_first_token_and_the_others(device: SimulatedDevice) -> None:
    """Every token is waited for, so none of the device's work is counted with the next one."""
    found = clock_on(device).time(lambda: pytest.fail("the clock generates itself"))
    assert 1e3 * found[FIRST_TOKEN] == pytest.approx(20, abs=0.01)
    assert 1e3 * found[PER_TOKEN] == pytest.approx(3.3, abs=0.01)
    assert found[LATENCY] - found[FIRST_TOKEN] == pytest.approx(3 * found[PER_TOKEN], rel=1e-12)


def test_times_between_tokens_are_those_of_the_samples(device: SimulatedDevice) -> None:
    """Not those of the cold start and the warm-up, which come first."""
    clock = clock_on(device)
    cold, *samples = [clock.time(lambda: None) for _ in range(3)]
    series = Series(LATENCY, tuple(each[LATENCY] for each in samples))
    timing = Timing(cold[LATENCY], (), (series,), LATENCY, "fixed", "iterations")
    found = clock.with_tokens(timing).find(BETWEEN_TOKENS)
    assert found is not None
    assert [round(1e3 * value, 1) for value in found.values] == [3.2, 3.3, 3.4] * 2


SOURCE = """
import torch
from modelzoo.workload import Generation, Inputs, Workload

class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(64, 64, bias=False)
        torch.nn.init.eye_(self.head.weight)

    def forward(self, ids, cache=None):
        seen = ids if cache is None else torch.cat([*cache, ids], 1)
        if cache is not None:
            cache.append(ids)
        return self.head(torch.nn.functional.one_hot((seen.sum(1) + 1) % 64, 64).float())

def inputs(request):
    return Inputs((torch.arange(3) + torch.arange(request.batch)[:, None],), ("row",) * request.batch)

def prefill(forward, ids):
    cache = []
    return forward(ids, cache), cache

def step(forward, token, cache):
    return forward(token, cache), cache

def generate(options):
    return Generation(3, 5, prefill, step, cache_bytes=lambda cache: sum(ids.nbytes for ids in cache))

WORKLOAD = Workload("generating", "sums", "prompts", lambda options: Sum(), inputs, generate=generate, batch=2)
"""
"""The next token is the sum of all tokens so far, plus one: the state is the list of what was seen."""


def late(outside: str) -> dict[str, str]:
    """The last two steps multiply rows by the weight otherwise."""
    other = f"def other(self, rows, weight):\n        return {outside}\n\n    def forward("
    head = "return (self.head if seen.shape[1] <= 5 else lambda rows: self.other(rows, self.head.weight))("
    return {"return self.head(": head, "def forward(": other}


LATE_BF16 = late("(rows.bfloat16() @ weight.bfloat16().t()).float()")
LATE_NUMPY = late("torch.from_numpy(rows.numpy() @ weight.numpy().T)")
_INTERCEPTED = "torch.utils._python_dispatch._get_current_dispatch_mode()"
LATE_NOTICE = {**LATE_BF16, "seen.shape[1] <= 5": f"seen.shape[1] <= 5 or {_INTERCEPTED}"}
"""The last two steps multiply in bf16 unless their operators are intercepted."""
NOTICED_TOKENS = {"seen.sum(1) + 1": f"seen.sum(1) + (2 if seen.shape[1] > 5 and {_INTERCEPTED} else 1)"}
"""The last two tokens are others while operators are intercepted."""
KEPT = {
    "    cache = []\n": "    cache = CACHE\n    assert not cache\n",
    "def prefill": "CACHE = []\n\ndef prefill",
    "prefill, step, ": "prefill, step, reset=list.clear, ",
}
"""One state, which every generation uses again."""
READ = DecodingBytes(64 * 64 * 4, 2 * 8 * (4 + 5 + 6 + 7) / 4)
"""By a step: the weights as they are stored, and the cache, the mean over the steps, which each add a token to it."""


def generating_workload(folder: Path, changes: dict[str, str] | None = None) -> Workload:
    """Write the workload to ``folder``, with ``changes`` of its source, and load it."""
    source = SOURCE
    for old, new in (changes or {}).items():
        assert old in source
        source = source.replace(old, new)
    (folder / "workload.py").write_text(source, encoding="utf-8")
    return load_workload(folder)


def test_every_call_is_a_generation(tmp_path: Path) -> None:
    """Its time is that of the first token and of the others, to a rounding error; the operations are of all tokens."""
    report = report_of(RANDOM, generating_workload(tmp_path), audit=True)
    assert report.generation == Generated(3, 5)
    assert report.timing is not None
    whole, first, each = (report.timing.values(name) for name in (LATENCY, FIRST_TOKEN, PER_TOKEN))
    assert len(whole) == len(first) == len(each) == len(report.timing.steady)
    assert all(a == pytest.approx(b + 4 * c, rel=1e-9) for a, b, c in zip(whole, first, each))
    assert len(report.timing.values(BETWEEN_TOKENS)) == 4 * len(whole)
    assert report.observed.flops is not None
    assert report.observed.flops.total == 5 * 2 * 2 * 64 * 64


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (Setting(mode="compile"), "--mode compile has no cache that grows; use --mode eager"),
        (Setting(engine="onnxruntime"), "--engine onnxruntime runs one forward pass; use --engine torch"),
    ],
)
def test_what_cannot_generate_is_refused_before_anything_is_made(
    tmp_path: Path, setting: Setting, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that says what to use."""
    pytest.importorskip(setting.engine)
    work = generating_workload(tmp_path)
    (found,) = prepare(PrepareJob(str(work.directory), (setting,), 0), lambda message: None)
    assert found.error == f"generating generates tokens one by one, and {problem}"


@pytest.mark.parametrize(("audit", "given"), [(False, 0), (True, 4)])
def test_what_a_step_reads_is_counted(audit: bool, given: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audited generation shows it, so none is run for it alone."""
    found: list[int] = []
    bytes_read = Generating.bytes_read
    monkeypatch.setattr(Generating, "bytes_read", lambda own, cache: found.append(len(cache)) or bytes_read(own, cache))
    report = report_of(RANDOM, generating_workload(tmp_path), audit=audit)
    assert (found, report.observed.decoding) == ([given], READ)


def test_each_phase_of_the_recorded_generation_has_an_audit(tmp_path: Path) -> None:
    """The prefill, and all steps of decoding, whose operations are the mean; products are called again once."""
    report = report_of(RANDOM, generating_workload(tmp_path), audit=True)
    whole = report.observed.evidence
    assert whole is not None
    prefill, decode = report.observed.phases
    assert (prefill.name, decode.name) == (PREFILL, DECODE)
    for phase, passes in ((prefill, 1), (decode, 4)):
        assert phase.evidence is not None and phase.flops is not None
        assert phase.evidence.verdict is whole.verdict is ProofVerdict.FP32
        assert (phase.evidence.iterations, phase.flops.total) == (passes, 2 * 2 * 64 * 64)
        assert phase.evidence.coverage.known_arithmetic == 1.0
        assert phase.evidence.problems == ()
        assert phase.evidence.is_replayed
    assert [each.count for each in whole.products] == [5]


def test_other_processes_list_a_prefill_and_a_step(tmp_path: Path) -> None:
    """Two products of the five that a generation of five tokens has; the first process lists them, too."""
    for full_audit in (True, False):
        report = report_of(RANDOM, generating_workload(tmp_path), audit=True, full_audit=full_audit)
        assert report.observed.kernels is not None
        assert sum(each.count for each in report.observed.kernels.kernels) == 2


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        (LATE_BF16, ProofVerdict.NOT_FP32, "matmul ran in bf16"),
        (LATE_NUMPY, ProofVerdict.UNKNOWN, "numbers that no operator computed"),
        (LATE_NOTICE, ProofVerdict.UNKNOWN, "computed other outputs, or in other precisions"),
        (NOTICED_TOKENS, ProofVerdict.UNKNOWN, "computed other outputs, or in other precisions"),
    ],
)
def test_what_late_steps_do_is_found(
    tmp_path: Path, changes: dict[str, str], verdict: ProofVerdict, reason: str
) -> None:
    """bf16, products outside torch, bf16 while no operator is intercepted, and other tokens while they are.

    Only a kernel log shows products that are not intercepted, and CPUs without AVX-512 log none in bf16.
    """
    bf16 = torch.ones(64, 64, dtype=torch.bfloat16)
    if changes is LATE_NOTICE and "bf16" not in logged_precisions(lambda: bf16 @ bf16):
        pytest.skip("no library logs a product in bf16 on this CPU")
    report = report_of(RANDOM, generating_workload(tmp_path, changes), audit=True)
    evidence = report.observed.evidence
    assert evidence is not None
    assert evidence.verdict is verdict
    assert reason in sentence(evidence)


def logged_precisions(call: Callable[[], object]) -> set[str]:
    """Those of the products that the libraries log."""
    digest = digest_of(call, None)
    return {each.precision for each in digest.kernels} if digest is not None else set()


def test_a_state_that_is_used_again_is_given_back_before_each_prefill(tmp_path: Path) -> None:
    """Otherwise a generation that is audited would go on from the one before."""
    report = report_of(RANDOM, generating_workload(tmp_path, KEPT), audit=True)
    evidence = report.observed.evidence
    assert evidence is not None and evidence.verdict is ProofVerdict.FP32
    assert report.observed.decoding == READ
