"""Sides and trained relatives for the tests of the judgements."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import hypothesis
import pytest

from modelzoo.validity import Side
from modelzoo.workload import discovery

# Importing torch inside the first example, and other load, take longer than hypothesis allows an example.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
DATA = Path(os.environ.get("MODELZOO_TEST_DATA") or WORKLOADS.parent.parent.parent / "shared")


def _needs(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path} is absent; set MODELZOO_TEST_DATA")
    return path


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small models gain nothing from more, and lose much beside other load."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def side() -> Callable[..., Side]:
    """Make a side of a model: ``side(model, "bf16")`` runs it under autocast, ``via`` wraps the call."""

    def make(model: Any, precision: str = "fp32", via: Callable[..., Any] | None = None) -> Side:
        import torch

        call = via or model

        def run(*args: Any) -> Any:
            bf16 = precision == "bf16"
            with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
                return call(*args)

        return Side("fp32" if precision == "fp32" else "bf16 autocast", run, precision, model)

    return make


@pytest.fixture(scope="session")
def classifier() -> Any:
    """The trained EfficientNet-Lite0: ``workload``, ``model`` and ``data``."""
    import torch

    loaded = discovery.load_workload(WORKLOADS / "efficientnet_lite0")
    module = sys.modules[loaded.judge.preprocess.__module__]
    model = loaded.build({}) if _needs(module.WEIGHTS) else None
    assert model is not None
    model.load_state_dict(torch.load(module.WEIGHTS, weights_only=True))
    return SimpleNamespace(workload=loaded, model=model, data=_needs(DATA / "data" / "imagenet"))


@pytest.fixture(scope="session")
def detector() -> Any:
    """The trained SSDLite: ``workload``, ``model``, ``data`` and its ``module``."""
    loaded = discovery.load_workload(WORKLOADS / "ssdlite")
    module = sys.modules[loaded.judge.preprocess.__module__]
    model = loaded.load({}, _needs(module.WEIGHTS))
    return SimpleNamespace(workload=loaded, model=model, data=_needs(DATA / "data" / "coco"), module=module)


@pytest.fixture(scope="session")
def reader() -> Any:
    """The trained BERT: ``task`` (short windows, for speed), ``model``, ``path`` of its checkpoint, ``data``."""
    from modelzoo.validity import Answers

    path = _needs(DATA / "weights" / "bert" / "minilm-l6-squad")
    with contextlib.redirect_stderr(io.StringIO()):
        from transformers import AutoTokenizer, BertForQuestionAnswering

        model = BertForQuestionAnswering.from_pretrained(path).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(path)

    def call(ids: Any, mask: Any, types: Any) -> Any:
        return model(input_ids=ids, attention_mask=mask, token_type_ids=types)

    task = Answers(tokenizer=lambda _: tokenizer, max_length=192, stride=64)
    data = _needs(DATA / "data" / "squad" / "xquad.en.json")
    return SimpleNamespace(task=task, model=model, call=call, path=path, data=data, tokenizer=tokenizer)
