"""Both models are loaded: the reference is in fp32 and repeatable, and its NaN and Inf are no fault of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engines.fake_engine import FakeEngine, FakeSession
from safetensors.torch import save_file
from torch import nn
from toy_workloads import numpy_classifier

from modelzoo.engines.torch.engine import TorchEngine
from modelzoo.errors import EnvironmentProblem, InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.run import ValidityEntry, ValidityReport
from modelzoo.records.run_report import Prepared
from modelzoo.records.validity import ReasonKind, ValidityRequest, ValidityVerdict
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.validity import Classification
from modelzoo.validity.checks import places
from modelzoo.validity.predictors import bound_task, validate
from modelzoo.views.judgement import valid_line
from modelzoo.views.validity import document
from modelzoo.workload import Inputs, Workload

BF16 = ResolvedSetting("bf16", "autocast", batch=2, threads=1)
FP32 = ResolvedSetting(batch=2, threads=1)
CLASSES = 8


class Net(nn.Module):
    """A small classifier, whose behaviour is given."""

    def __init__(self, before: Callable[[nn.Module, Any], Any], after: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.drop = nn.Linear(48, 64), nn.Linear(64, CLASSES), nn.Dropout()
        self.mask = Mask()
        self.register_buffer("ignore", torch.tensor([-torch.inf] * 3 + [0.0] * (CLASSES - 3)))
        self._before, self._after = before, after

    def forward(self, x: Any) -> Any:
        """(items, 48) to (items, CLASSES)."""
        return self._after(self, self.second(torch.relu(self.first(self._before(self, x)))))


class Mask(nn.Module):
    """Sets the first logits to -inf."""

    def forward(self, x: Any) -> Any:
        """Of the shape of ``x``."""
        return x.masked_fill(torch.arange(CLASSES) < 3, -torch.inf)


def same(net: nn.Module, x: Any) -> Any:
    """Nothing is done."""
    return x


def judged(
    folder: Path, before: Any = same, after: Any = same, *, kind: Any = torch.float32, setting: Any = BF16
) -> ValidityReport:
    """The judgement of ``setting`` on three crops, by a model that was built in the type ``kind``."""

    def preprocess(picture: Any) -> Any:
        small = np.asarray(picture.resize((4, 4)), dtype="float32") / 255
        return torch.from_numpy(np.ascontiguousarray(small)).flatten().to(kind)

    classes = [f"class {number}" for number in range(CLASSES)]
    work = Workload(
        name="toy",
        title="a toy",
        unit="rows",
        build=lambda options: Net(before, after).to(kind),
        inputs=lambda request: Inputs((torch.rand(request.batch, 48).to(kind),), ("noise",)),
        judge=lambda options: Classification(preprocess, lambda: classes),
    )
    path = folder / "weights.safetensors"
    save_file(work.build({}).state_dict(), str(path))
    weights = Weights(WeightsKind.RANDOM, "seed 0", str(path), "", 0)
    inputs = Inputs((torch.rand(2, 48).to(kind),), ("noise",))
    return validate(TorchEngine(), work, Prepared(setting, weights), inputs, ValidityRequest(limit=3))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_a_model_that_was_built_in_another_type_is_judged_in_fp32(tmp_path: Path, kind: Any) -> None:
    """It is converted, with its inputs, and the output says so; its bf16 has the errors of bf16."""
    found = judged(tmp_path, kind=kind)
    assert found.validity.verdict is ValidityVerdict.NUMERIC_ONLY
    (error,) = [each.seen for each in found.validity.checks if each.name == "tensor_error"]
    assert error is not None and error > 0.2
    shown = str(document(ValidityEntry("toy", 0, Setting("bf16"), 0, found)))
    assert shown.count(f"were not all in fp32 (100 % {str(kind)[6:]}), and were converted to it") == 1


@pytest.mark.parametrize("changes", [{"mode": "script"}, {"backend": "blas"}])
def test_every_setting_that_is_timed_can_be_judged(changes: dict[str, Any], tmp_path: Path) -> None:
    """Traced, and without oneDNN: each is compared with plain fp32."""
    found = judged(tmp_path, setting=replace(FP32, **changes)).validity
    assert found.verdict is ValidityVerdict.NUMERIC_ONLY, found.reason


def inner_autocast(net: Any, x: Any) -> Any:
    """A product in bf16, whatever the setting is."""
    with torch.autocast("cpu", torch.bfloat16):
        return x + net.second(torch.zeros(len(x), 64)).float()


def test_a_reference_that_multiplies_in_less_than_fp32_is_refused(tmp_path: Path) -> None:
    """Whatever the types of its weights."""
    with pytest.raises(UsageError, match=r"no fp32 reference: toy itself multiplies in bf16; leave autocast"):
        judged(tmp_path, after=inner_autocast)


def test_a_model_that_needs_its_own_types_is_refused(tmp_path: Path) -> None:
    """One layer in fp64, which forward converts its input to."""
    with pytest.raises(UsageError, match=r"its weights were converted from float64 to fp32: build it in fp32"):
        judged(tmp_path, before=lambda net, x: x.double(), kind=torch.float64)


def test_inputs_that_a_model_changes_in_place_are_its_own(tmp_path: Path) -> None:
    """Its judgement is that of its twin, which changes a copy; no pass gets what another one left."""
    found = judged(tmp_path, before=lambda net, x: x.sub_(0.5).mul_(3)).validity
    twin = judged(tmp_path, before=lambda net, x: (x - 0.5) * 3).validity
    assert found.verdict is ValidityVerdict.NUMERIC_ONLY
    assert (found.checks, found.figures) == (twin.checks, twin.figures)


def in_training(net: nn.Module, x: Any) -> Any:
    """Dropout of a model that goes back to training mode."""
    net.train()
    return net.drop(x)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        (lambda net, x: nn.functional.dropout(x), same, ", first in first"),
        (in_training, same, ", first in drop"),
        (same, lambda net, x: x + torch.rand_like(x), ""),
    ],
)
def test_a_reference_that_is_random_cannot_judge(tmp_path: Path, before: Any, after: Any, where: str) -> None:
    """The output says by how much two passes differ, and where that begins."""
    found = judged(tmp_path, before, after).validity
    assert (found.verdict, found.exit_code) == (ValidityVerdict.CANNOT_JUDGE, 2)
    assert found.reason.kind is ReasonKind.REFERENCE_NOT_REPEATABLE
    size = found.reason.unrepeatable.change
    assert size is not None and size > 0.01
    assert f"differ by {100 * size:.2g} %{where}: it is random" in valid_line(found)


@pytest.mark.parametrize(
    ("after", "setting"),
    [
        (lambda net, x: net.mask(x).softmax(-1), BF16),
        (lambda net, x: net.mask(x), FP32),
        (lambda net, x: x + net.ignore, BF16),
    ],
)
def test_an_infinity_that_fp32_has_too_is_no_fault(tmp_path: Path, after: Any, setting: Any) -> None:
    """A module that returns -inf, logits of classes that are not used, a buffer."""
    found = judged(tmp_path, after=after, setting=setting).validity
    assert found.verdict is ValidityVerdict.NUMERIC_ONLY
    assert found.figures["kl_max"] < 0.01


def test_places_that_are_not_finite_are_told_apart() -> None:
    """In lists, tuples and dicts of tensors; by tensor, place and kind."""
    good = ({"a": [torch.ones(2)]}, torch.tensor([1]))
    assert places(good) == ""
    bad = [places((good, [torch.tensor(values)])) for values in ([1.0, torch.inf], [1.0, -torch.inf], [torch.inf, 1.0])]
    assert len({"", *bad}) == 4
    assert places((good, [torch.tensor([9.0, torch.inf])])) == bad[0]


@pytest.mark.parametrize("is_bf16", [True, False])
@pytest.mark.parametrize("value", [-torch.inf, torch.nan])
def test_an_infinity_of_one_model_alone_is_a_fault(tmp_path: Path, is_bf16: bool, value: float) -> None:
    """Of the one under test, whatever the other logits are; what fp32 alone has is no valid reference, or differs."""

    def after(net: Any, x: Any) -> Any:
        alone = (x.dtype is torch.bfloat16) == is_bf16
        return net.mask(x).masked_fill(torch.arange(CLASSES) == 5, value) if alone else net.mask(x)

    found = judged(tmp_path, after=after).validity
    is_usable = is_bf16 or value == -torch.inf
    assert found.verdict is (ValidityVerdict.NOT_VALID if is_usable else ValidityVerdict.CANNOT_JUDGE)


WEIGHTS = Weights(WeightsKind.PATH, "toy", "toy.npz", "0" * 64)


def prepared(weights: Weights, **changes: Any) -> Prepared:
    """bf16 with these weights."""
    return Prepared(FakeEngine().resolve(Setting(precision="bf16", **changes), batch=2, threads=1), weights)


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    """A numpy classifier."""
    return numpy_classifier(tmp_path)


def test_without_fp32_there_is_no_reference(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary that shows bf16 in the reference ends the judgement before anything is compared."""
    rounded = Canary((OperatorCheck("matmul", 2e-3, CanaryLevel.BF16),))
    monkeypatch.setattr(FakeSession, "canary", lambda self: rounded)
    weights = replace(WEIGHTS, path=str(work.directory / "weights.npz"))
    with pytest.raises(EnvironmentProblem, match=r"no fp32 reference .* matmul bf16 \(2.0e-03\)"):
        validate(FakeEngine(), work, prepared(weights), Inputs((), ()), ValidityRequest())


def test_data_are_read_before_models_are_loaded(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them shows at once."""
    monkeypatch.setattr(FakeSession, "load", lambda *args: pytest.fail("a model was loaded"))
    request = ValidityRequest(data=str(work.directory / "none"))
    with pytest.raises(InputError, match="no such file or directory"):
        validate(FakeEngine(), work, prepared(WEIGHTS), Inputs((), ()), request)


def test_the_request_is_completed_from_setting_and_weights(work: Workload) -> None:
    """Batch, seed, and whether the weights are random, the user's, or a checkpoint directory; a judge gets options."""
    requested: list[Mapping[str, Any]] = []
    declared = replace(work, judge=lambda options: requested.append(options) or work.judge(options))

    def completed(weights: Weights, **setting: Any) -> ValidityRequest:
        return bound_task(declared, prepared(weights, **setting), ValidityRequest(limit=3)).context.request

    found = completed(WEIGHTS, seed=5, options={"size": 3})
    assert (found, requested) == (ValidityRequest(limit=3, seed=5, batch=2, own_weights=True), [{"size": 3}])
    random = completed(replace(WEIGHTS, kind=WeightsKind.RANDOM))
    assert (random.weights_are_random, random.own_weights, random.model_path) == (True, False, None)
    directory = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, path=str(work.directory))
    assert completed(directory).model_path == str(work.directory)
