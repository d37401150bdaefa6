"""int8 models: the recipes that quantize a torch module, and which of them this torch and this machine have.

``dynamic`` is ``torch.ao.quantization.quantize_dynamic``: the weights of ``torch.nn.Linear`` are int8 with one scale
per layer, and its inputs are quantized in each call with one scale per tensor. ``torchao`` has one scale for each
output of a layer, and one for each row of its inputs. ``weight-only`` and ``weight-only-packed`` leave the inputs as
they are. Everything else stays fp32.

``static`` is torchao's quantization of an exported graph (PT2E) for inductor on x86: convolutions and Linear layers,
and what lies between them, with one scale per output channel for weights, and one per tensor for everything else, from
batches of the workload's own inputs, which are neither those that are measured nor the user's.
"""

from __future__ import annotations

import copy
import platform
import warnings
from collections.abc import Sequence
from typing import Any

from modelzoo.engines import torchao_installation
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine.installation import installed_version
from modelzoo.setting import Setting

DYNAMIC, TORCHAO, WEIGHT_ONLY, PACKED = "dynamic", "torchao", "weight-only", "weight-only-packed"
STATIC = "static"
QUANTIZED_ENGINES = ("x86", "onednn", "qnnpack")
"""torch's libraries for quantized layers (``torch.backends.quantized.engine``), the fastest first."""
MODES = {DYNAMIC: ("eager", "script"), STATIC: ("compile",)}
"""The modes of a recipe, where they are not eager alone. Dynamo does not take torch's quantized layers, and the graph
that ``static`` makes computes in fp32 unless inductor compiles it."""
X86 = ("x86_64", "AMD64")


class NothingToQuantizeError(ValueError):
    """A model has no layer that the recipe quantizes; the message says so in one line."""


def check_recipe(setting: Setting) -> None:
    """Check that the recipe of an int8 setting can run here.

    Raises:
        UsageError: no torch has it on this device or in this mode.
        EnvironmentProblem: this torch does not have it, or its package is not installed.
    """
    import torch

    if setting.precision != "int8":
        return
    if setting.device != "cpu":
        raise UsageError(f"int8 is for CPUs, not for {setting.device}; use --bf16 or --fp16")
    recipe = resolve_recipe(setting)
    assert recipe is not None, "int8 has a recipe"
    modes = MODES.get(DYNAMIC if recipe.startswith(DYNAMIC) else recipe, ("eager",))
    if setting.mode not in modes:
        raise UsageError(f"recipe={setting.recipe or recipe} runs with --mode {' or '.join(modes)}, not {setting.mode}")
    if recipe == STATIC and platform.machine() not in X86:
        raise EnvironmentProblem("recipe=static is for x86 CPUs (torchao's X86InductorQuantizer); use another recipe")
    if recipe in (TORCHAO, WEIGHT_ONLY, STATIC):
        _import_torchao(recipe)
    if recipe.startswith(DYNAMIC) and not hasattr(torch.ao.quantization, "quantize_dynamic"):
        raise EnvironmentProblem(f"recipe={recipe}: torch {torch.__version__} has no quantize_dynamic any more")


def resolve_recipe(setting: Setting) -> str | None:
    """The recipe that ``setting`` runs with; ``None`` if it is not quantized.

    Without one, it is ``torchao`` on x86 if that is installed, because its predictions are nearer to those of fp32,
    and ``dynamic`` elsewhere: on ARM, torch has no kernel for torchao's products but a loop of its own
    (https://github.com/pytorch/ao/issues/4281). ``dynamic`` takes the first of ``QUANTIZED_ENGINES`` that this torch
    has: ``x86`` (FBGEMM) is the fastest on x86, and ``onednn`` calls Compute Library on ARM.

    Args:
        setting: with the recipe that was asked for.

    Raises:
        UsageError: it is a recipe of another engine.
        EnvironmentProblem: the library that the recipe names is not among them.
    """
    if setting.precision != "int8":
        return None
    prefers_torchao = platform.machine() in X86 and installed_version(TORCHAO) is not None
    recipe = setting.recipe or (TORCHAO if prefers_torchao else DYNAMIC)
    if recipe in ("dynamic-per-tensor", "dynamic-per-channel"):
        raise UsageError(f"recipe={recipe} is one of ONNX Runtime's; use --engine onnxruntime, or recipe={DYNAMIC}")
    if not recipe.startswith(DYNAMIC):
        return recipe
    import torch

    asked, found = recipe.partition("-")[2], torch.backends.quantized.supported_engines
    known = [name for name in QUANTIZED_ENGINES if name in found]
    if asked and asked not in known:
        have = f"it has {', '.join(known)}" if known else "it has none"
        raise EnvironmentProblem(f"recipe={recipe}: this torch has no {asked} engine on this machine; {have}")
    if not known:
        raise EnvironmentProblem(f"recipe={recipe}: this torch has no engine for quantized layers on this machine")
    return f"{DYNAMIC}-{asked or known[0]}"


def engine_of(recipe: str | None) -> str | None:
    """torch's library of a resolved recipe; ``None`` if it needs none."""
    return recipe.partition("-")[2] if recipe is not None and recipe.startswith(DYNAMIC) else None


def arithmetic_of(setting: Setting) -> str:
    """What the products with weights are to run in: the precision, or ``int8 weight-only``."""
    is_weight_only = setting.recipe in (WEIGHT_ONLY, PACKED)
    return f"{setting.precision} weight-only" if is_weight_only else setting.precision


def quantized(model: Any, recipe: str, batches: Sequence[tuple[Any, ...]] = ()) -> Any:
    """Return a quantized copy of ``model``, a ``torch.nn.Module`` in fp32; call it while the recipe's engine is active.

    Args:
        model: in eval mode.
        recipe: a resolved one.
        batches: positional arguments, from which ``static`` takes the ranges; those of other calls must have the shapes
            of the first.

    Raises:
        NothingToQuantizeError: it has no layer that the recipe quantizes.
    """
    import torch

    if recipe == STATIC:
        return _quantized_statically(model, batches)
    if not any(_is_linear(module) for module in model.modules()):
        raise NothingToQuantizeError("the model has no torch.nn.Linear layer")
    # What replaces layers takes those inside of a module.
    inside = torch.nn.Sequential(copy.deepcopy(model)).eval()
    if recipe == PACKED:
        _pack_weights(inside)
    elif recipe in (TORCHAO, WEIGHT_ONLY):
        ao = _import_torchao(recipe)
        configs = {TORCHAO: ao.Int8DynamicActivationInt8WeightConfig, WEIGHT_ONLY: ao.Int8WeightOnlyConfig}
        # Version 1, still the default, is deprecated. The settings of inductor would hold for the whole process.
        ao.quantize_(inside, configs[recipe](set_inductor_config=False, version=2), filter_fn=_is_linear)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.ao.quantization is deprecated in favour of torchao
            linear = {torch.nn.Linear}
            torch.ao.quantization.quantize_dynamic(inside, linear, dtype=torch.qint8, inplace=True)
    return inside[0]


def _is_linear(module: Any, name: str = "") -> bool:
    """Whether a layer is quantized: not a subclass, whose weights others may read."""
    import torch

    return type(module) is torch.nn.Linear


def _pack_weights(model: Any) -> None:
    """Replace the Linear layers inside of ``model`` by torch's product of fp32 rows and int8 weights."""
    import torch

    class PackedLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self, linear: Any) -> None:
            super().__init__()
            weight = linear.weight.detach()
            # One scale per output, as torchao's.
            scales = (weight.abs().amax(1) / 127.5).clamp(min=torch.finfo(torch.float32).eps)
            rounded = (weight * (1 / scales)[:, None]).round().clamp(-128, 127)
            self.register_buffer("packed", rounded.to(torch.int8))
            self.register_buffer("scales", scales)
            self.bias = linear.bias

        def forward(self, x: Any) -> Any:
            rows = x.reshape(-1, x.shape[-1])
            found = torch.ops.aten._weight_int8pack_mm(rows, self.packed, self.scales)
            found = found if self.bias is None else found + self.bias
            return found.reshape(*x.shape[:-1], -1)

    for name, module in list(model.named_modules()):
        if _is_linear(module):
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, PackedLinear(module))


def _quantized_statically(model: Any, batches: Sequence[tuple[Any, ...]]) -> Any:
    """Return a graph in which everything that is quantized is followed by its conversion back to fp32.

    Inductor replaces these, and the operators between them, by oneDNN's int8 operators.
    """
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Tensors that were made in inference mode cannot be exported; copies that are made outside of it can.
        plain, given = copy.deepcopy((model, tuple(batches)))
        # Without strict, nothing would be quantized (https://github.com/pytorch/ao/issues/3914).
        graph = torch.export.export(plain, given[0], strict=True).module()
        quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
        observed = prepare_pt2e(graph, quantizer)
        for args in given:
            observed(*args)
        found = convert_pt2e(observed)
    if not any("dequantize_per_channel" in str(node.target) for node in found.graph.nodes):
        raise NothingToQuantizeError("torchao has found no layer to quantize")
    # Weights before they were quantized are tensors that the graph does not read.
    read = {str(node.target) for node in found.graph.nodes if node.op == "get_attr"}
    for name in [name for name in found.state_dict() if name not in read]:
        owner, _, own = name.rpartition(".")
        delattr(found.get_submodule(owner), own)
    return found


def weight_bytes(module: Any, *, with_tables: bool = False) -> int | None:
    """Bytes of the parameters that each pass reads whole; ``None`` if some are kept in a form of which it is not known.

    With ``with_tables`` also those of embeddings, of which a pass reads some rows.

    Quantized layers of ``torch.ao.nn`` have methods in place of parameters, and others hold buffers.
    """
    import torch

    layers = [each for each in module.modules() if with_tables or not isinstance(each, torch.nn.Embedding)]
    read = {id(each): each for layer in layers for each in (*layer._parameters.values(), *layer._buffers.values())}
    # Those of a quantized layer are returned by methods.
    packed = [getattr(layer, name, None) for layer in layers for name in ("weight", "bias")]
    parts = [part() for part in packed if callable(part)]
    sizes = [_bytes(each) for each in (*read.values(), *parts) if each is not None]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _bytes(tensor: Any) -> int | None:
    """Size of a tensor as it is stored; subclasses that wrap others (torchao's) say which, or it is not known."""
    import torch

    data = tensor.data
    if hasattr(data, "__tensor_flatten__"):
        sizes = [_bytes(getattr(data, name)) for name in data.__tensor_flatten__()[0]]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    return int(data.numel() * data.element_size()) if type(data) is torch.Tensor else None


def _import_torchao(recipe: str) -> Any:
    """torchao's functions; raises ``EnvironmentProblem`` if it is missing, or does not fit this torch."""
    try:
        from torchao import quantization

        if recipe == STATIC:
            from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401
            from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer  # noqa: F401
        else:
            from torchao.quantization.quantize_.workflows import int8  # noqa: F401  # the layers of version 2
    except ImportError as error:
        version = installed_version(TORCHAO)
        advice = torchao_installation(installed_version("torch"))
        problem = "is not installed" if version is None else f"{version} cannot be imported ({error})"
        raise EnvironmentProblem(f"recipe={recipe}: torchao {problem}: {advice}") from error
    return quantization
