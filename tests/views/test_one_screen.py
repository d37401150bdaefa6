"""The end of a run fits one screen, and its first lines decide whether to read on."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runs import evidence, judgement, make, result_of
from printed import printed
from stored_results import STORED, name, unpacked

from modelzoo.cli.files import result_lines
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result, Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.views import kinds
from modelzoo.warning import WarningCode, warning_for

AFTER = 3
"""Lines of a run after its document: the file of a plot, that of the result, and how to see the details."""
SPEEDUPS = {"bert": 2.21, "resnet50": 1.001, "ssdlite": 1.02, "maskrcnn": 1.74}
"""How much faster bf16 is than fp32: one model is not faster, and of one it cannot be told."""


def ending(result: Result) -> list[str]:
    """All lines of the end of a call in a terminal of 100 columns, but for the names of files."""
    view = kinds.of(result)
    return [*printed(view.document(result, False, False)).splitlines(), *result_lines(result, view.rows(result))]


def default_run() -> Result:
    """What the default run ends with: four models in two precisions, judged, on a machine that is not quiet."""
    runs, judged = [], []
    verdicts = [ValidityVerdict.VALID] * 3 + [ValidityVerdict.CANNOT_JUDGE]
    for index, ((model, speedup), verdict) in enumerate(zip(SPEEDUPS.items(), verdicts)):
        level = 0.08 * (index + 1)
        for setting, seconds in ((Setting(), level), (Setting("bf16"), level / speedup)):
            runs += [process(model, setting, seconds, number) for number in range(4)]
        judged.append(replace(judgement(verdict), workload=model, group=2 * index + 1))
    return replace(result_of(*runs), validity=tuple(judged))


def process(name: str, setting: Setting, seconds: float, number: int) -> Run:
    """One process, with warnings."""
    noise = 0.03 if name == "ssdlite" and setting.precision == "bf16" else 0.002
    level = seconds * (1 + noise * (-1, 1.3, -0.4, 0.1)[number])
    proof = ProofVerdict.FP32 if setting.precision == "fp32" else ProofVerdict.ACTIVE
    warnings = (
        warning_for(WarningCode.OTHER_LOAD, cores=1.2 if name == "bert" else 0.4),
        warning_for(WarningCode.FORCED_KERNELS, names="OPENBLAS_CORETYPE=Haswell"),
        warning_for(WarningCode.SMT, threads=2, command="taskset -c 0-3 before the command"),
        warning_for(WarningCode.MISSING_WEIGHTS, reason="no published checkpoint"),
        warning_for(WarningCode.OUTLIERS, count=3, total=120),
    )
    samples = [level * (1 + 0.01 * (place % 3)) for place in range(120)]
    return make(samples, workload=name, setting=setting, round=number, evidence=evidence(proof), warnings=warnings)


def test_four_models_in_two_precisions_end_in_one_screen() -> None:
    """The first ten lines say what is fastest, whether to believe it, and what spoiled it; VALID is said once."""
    said = ending(default_run())
    assert len(said) + AFTER <= 50
    assert max(map(len, said)) <= 100
    first, text = " ".join(said[:10]), "\n".join(said)
    for fact in (
        "bf16 is faster than fp32 on 2 of 4 models (1.740× to 2.210×)",
        "kernels verified",
        "accuracy check: 3 VALID, 1 CANNOT JUDGE",
        "NOISY MACHINE: other programs were running",
        "Neoverse-N2, 4 cores",
        "2.210× [2.210, 2.210]  FASTER     VALID",
    ):
        assert fact in first
    assert text.count("accuracy check:") == 2
    assert "maskrcnn: accuracy check: CANNOT JUDGE" in text


FACTS = {
    "early-full": (
        "no significant difference between bf16 and fp32 on 4 of 4 models",
        "kernels verified",
        "accuracy check: 4 NUMERIC ONLY (random weights)",
        "NOISY MACHINE: speed varied by",
        "0.98× [0.73, 1.33]  AMBIGUOUS",
    ),
    "early-strict": ("mlp: one forward batch in bf16 takes 300 µs", "ran in ANOTHER precision", "NOISY MACHINE"),
    "early-eff": ("failed: efficientnet_lite0: No module named",),
    "early-ssdlite": ("ssdlite bf16=autocast: VALID: box AP 0.5226 in fp32, 0.5234 in bf16", "8 images", "pass"),
}
"""What the first ten lines of results that were really measured say: runs, failures and accuracy checks."""


@pytest.mark.parametrize("stored", [path for path in STORED if name(path) in FACTS], ids=name)
def test_stored_results_fit_one_screen_and_begin_with_the_answer(stored: Path, tmp_path: Path) -> None:
    """Which is faster and by how much, whether to believe it, whether the accuracy is known, and what spoiled it."""
    said = ending(store.read(unpacked(stored, tmp_path)))
    assert len(said) + AFTER <= 50
    first = " ".join(said[:10])
    assert [fact for fact in FACTS[name(stored)] if fact not in first] == []
