"""Predictors and trained models for the tests of the judgements."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from validity.toys import Make, Run, judge

from modelzoo.frozen import replace
from modelzoo.machine.installation import import_torchvision
from modelzoo.records import codec
from modelzoo.records.exhibits import Exhibit
from modelzoo.validity import Answers, Predictor, Validity, ValidityRequest
from modelzoo.workload import discovery

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
DATA = Path(os.environ.get("MODELZOO_TEST_DATA") or WORKLOADS.parent.parent.parent / "shared")


def _needs(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path} is absent; set MODELZOO_TEST_DATA")
    return path


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small models gain nothing from more threads, and lose much under load."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def hidden(*sides: Predictor) -> list[Predictor]:
    """The models, whose layers are not looked at: that takes longer than a dozen pictures."""
    return [replace(each, model=None) for each in sides]


@pytest.fixture
def predictor() -> Make:
    """Make a predictor; ``via`` replaces the call.

    ``predictor(model, "bf16")`` has its weights rounded to bf16 and computes in fp32, as fast on every CPU: kernels of
    bf16 are emulated on most of them. Its errors are within those that rounding explains.
    """

    def make(model: Any, precision: str = "fp32", via: Callable[..., Any] | None = None) -> Predictor:
        if precision == "bf16" and via is None:
            model = copy.deepcopy(model)
            with torch.no_grad():
                for each in model.parameters():
                    each.copy_(each.bfloat16())
        return Predictor("fp32" if precision == "fp32" else "bf16 weights", via or model, precision, model)

    return make


@pytest.fixture
def autocast() -> Make:
    """Make a predictor whose kernels compute in bf16, by autocast; ``via`` replaces the call."""

    def make(model: Any, via: Callable[..., Any] | None = None) -> Predictor:
        def run(*args: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return (via or model)(*args)

        return Predictor("bf16 autocast", run, "bf16", model)

    return make


@pytest.fixture(scope="session")
def classifier() -> Any:
    """The trained EfficientNet-Lite0: ``workload``, its ``task``, ``model`` and ``data``."""
    loaded = discovery.load_workload(WORKLOADS / "efficientnet_lite0")
    task = loaded.judge({})
    module = sys.modules[task.preprocess.__module__]
    model = loaded.build({}) if _needs(module.WEIGHTS) else None
    assert model is not None
    model.load_state_dict(torch.load(module.WEIGHTS, weights_only=True))
    return SimpleNamespace(workload=loaded, task=task, model=model, data=_needs(DATA / "data" / "imagenet"))


@pytest.fixture(scope="session")
def detector() -> Any:
    """The trained SSDLite: ``workload``, its ``task``, ``model`` and ``data``."""
    import_torchvision()  # without torch's compiler
    loaded = discovery.load_workload(WORKLOADS / "ssdlite")
    task = loaded.judge({})
    module = sys.modules[task.preprocess.__module__]
    model = loaded.load({}, _needs(module.WEIGHTS))
    return SimpleNamespace(workload=loaded, task=task, model=model, data=_needs(DATA / "data" / "coco"))


@pytest.fixture(scope="session")
def reader() -> Any:
    """The trained BERT: ``task`` (short windows, for speed), ``model``, ``path`` of its checkpoint, ``data``."""
    path = _needs(DATA / "weights" / "bert" / "minilm-l6-squad")
    with contextlib.redirect_stderr(io.StringIO()):
        from transformers import AutoTokenizer

        model = discovery.load_workload(discovery.find_workload("bert")).load({}, path).eval()  # type: ignore[misc]
    tokenizer = AutoTokenizer.from_pretrained(path)
    task = Answers(tokenizer=lambda _: tokenizer, max_length=192, stride=64)
    data = _needs(DATA / "data" / "squad" / "xquad.en.json")
    return SimpleNamespace(task=task, model=model, path=path, data=data, tokenizer=tokenizer)


class Recorder:
    """Collects exhibits, after a round trip through JSON as between worker and parent."""

    def __init__(self) -> None:
        self.exhibits: list[Exhibit] = []

    def __call__(self, exhibit: Exhibit) -> None:
        self.exhibits.append(codec.decode(Exhibit, json.loads(codec.encode_json(exhibit))))

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """All rows of a CSV file."""
        return [row for each in self.exhibits if each.name == name and each.csv for row in each.csv.rows]

    @property
    def pictures(self) -> list[Exhibit]:
        """The exhibits with detections."""
        return [each for each in self.exhibits if each.detections is not None]


@pytest.fixture
def recorder() -> Recorder:
    """What a judge hands over for writing."""
    return Recorder()


@pytest.fixture
def against(predictor: Make, recorder: Recorder) -> Run:
    """Judge ``tested`` (default: the trained model with weights in bf16) against the trained model in fp32."""

    def go(
        trained: Any, tested: Predictor | None = None, task: Any = None, *, layers: bool = True, **request: Any
    ) -> Validity:
        sides = [predictor(trained.model), tested or predictor(trained.model, "bf16")]
        sides = sides if layers else hidden(*sides)
        asked = ValidityRequest(**{"batch": 4, **request})
        return judge("trained", task or trained.task, *sides, asked, exhibit=recorder)

    return go
