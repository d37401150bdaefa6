"""Random weights behave like trained ones: activation levels, counts, no denormals, no NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from modelzoo.workload import discovery, initialization, weights
from modelzoo.workload.declaration import InputRequest, Inputs
from modelzoo.workload.nested import tensors_in

TINY = torch.finfo(torch.float32).tiny


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: on a busy machine two spinning threads are many times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ready(name: str) -> tuple[Any, Inputs, Any]:
    """Return a workload's model with random weights, its inputs, and the workload."""
    work = discovery.load_workload(discovery.find_workload(name))
    values = work.option_values({})
    model = weights.load_model(work, values, weights.resolve_weights(work, values, "random", 0)).module
    return model, work.inputs(InputRequest(1, 0, None, values)), work


def suspicious(model: Any, inputs: Inputs) -> list[str]:
    """Return the modules whose output holds NaN, infinities or denormals."""
    found: list[str] = []

    def look(name: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            for tensor in tensors_in(output):
                if tensor.is_floating_point():
                    denormal = (tensor != 0) & (tensor.abs() < TINY)
                    if not torch.isfinite(tensor).all() or denormal.any():
                        found.append(name)

        return hook

    handles = [module.register_forward_hook(look(name)) for name, module in model.named_modules()]
    with torch.inference_mode(), initialization.temporary_hooks(handles):
        model(*inputs.args)
    return found


def test_resnet50_keeps_its_level_through_all_layers() -> None:
    """No module's output vanishes, explodes, or holds NaN or denormals; the logits differ by class."""
    model, inputs, _ = ready("resnet50")
    assert suspicious(model, inputs) == []
    layers = {name: each for name, each in model.named_children() if name.startswith("layer")}
    with torch.inference_mode():
        logits, outputs = initialization.capture_outputs(model, inputs, layers)
    assert len(outputs) == 4
    assert all(0.1 < float(each.std()) < 10 for each in outputs.values())
    assert logits.std() > 1e-3


@pytest.mark.parametrize("name", ["ssd", pytest.param("maskrcnn", marks=pytest.mark.slow)])
def test_detectors_have_a_trained_detectors_counts(name: str) -> None:
    """Without adjustment, 35,000 candidates would enter NMS of ssd; no output is suspicious."""
    model, inputs, work = ready(name)
    with torch.inference_mode():
        counts = work.count(model, inputs)
    assert counts
    for count in counts:
        assert count.is_typical, count
        assert count.source
    assert suspicious(model, inputs) == []


def test_normalization_is_fitted_to_what_it_sees() -> None:
    """Afterwards every batch norm's output has mean 0 and variance 1, that of later layers too."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 4, 3), torch.nn.BatchNorm2d(4)
    ).eval()
    inputs = Inputs((100 * torch.rand(1, 3, 16, 16),), ("noise",))
    with torch.no_grad():
        initialization.calibrate_batch_norm(model, inputs)
        _, seen = initialization.capture_outputs(model, inputs, {"first": model[1], "last": model[3]})
    for output in seen.values():
        assert output.mean((0, 2, 3)).abs().max() < 1e-4
        assert (output.var((0, 2, 3), unbiased=False) - 1).abs().max() < 1e-2
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def test_a_constant_channel_is_not_blown_up() -> None:
    """The minimum variance keeps rounding errors of a constant channel small."""
    layer = torch.nn.BatchNorm2d(2).eval()
    with torch.no_grad():
        initialization.calibrate_batch_norm(layer, Inputs((torch.full((1, 2, 4, 4), 5.0),), ("flat",)))
        assert layer(torch.full((1, 2, 4, 4), 5.001)).abs().max() < 0.1


def test_outputs_are_scaled_to_what_was_asked() -> None:
    """Afterwards the layer's output has mean 0 and the given standard deviation."""
    torch.manual_seed(0)
    layer, inputs = torch.nn.Conv2d(3, 4, 1), Inputs((torch.randn(2, 3, 9, 9) + 3,), ("noise",))
    with torch.no_grad():
        initialization.standardize_outputs(layer, inputs, {layer: 2.5})
        output = layer(*inputs.args)
    assert (output.std().item(), output.mean().item()) == (pytest.approx(2.5, rel=0.05), pytest.approx(0, abs=0.05))
