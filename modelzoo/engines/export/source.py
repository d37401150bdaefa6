"""The torch module that an engine converts, with its weights and one batch; this module imports torch when used.

Nested inputs and outputs are taken apart into arrays, and put together again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.profile import Flops
from modelzoo.records.workload import INPUT_CHANGE, Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload, calibration_inputs, make_inputs
from modelzoo.workload.initialization import temporary_hooks
from modelzoo.workload.nested import mapped
from modelzoo.workload.state import tensors_of
from modelzoo.workload.weights import Loaded, load_model

if TYPE_CHECKING:
    from numpy.typing import NDArray


ARRAY, SCALAR, NONE, TUPLE, LIST, DICT, OUTPUT = "array", "scalar", "none", "tuple", "list", "dict", "output"


class Structure(msgspec.Struct, frozen=True):
    """How arrays are nested.

    Attributes:
        kind: ``array``; ``scalar`` (a Python number, kept as an array without dimensions); ``none``; ``tuple``,
            ``list``; ``dict``; or ``output`` (another mapping, such as those of transformers).
        keys: of a ``dict`` or ``output``, in order.
        parts: what a container holds, in order.
    """

    kind: str
    keys: tuple[str, ...] = ()
    parts: tuple[Structure, ...] = ()

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Return a name for each array, in order: ``0``, ``1.boxes``; ``output`` if the whole is one array."""
        if self.kind in (ARRAY, SCALAR):
            return (prefix or "output",)
        keys = self.keys or tuple(map(str, range(len(self.parts))))
        return tuple(
            name for key, part in zip(keys, self.parts) for name in part.names(f"{prefix}.{key}" if prefix else key)
        )

    @property
    def count(self) -> int:
        """Number of arrays."""
        return 1 if self.kind in (ARRAY, SCALAR) else sum(part.count for part in self.parts)


class NamedOutput(dict[str, Any]):
    """The arrays of a mapping of a library, which are found by key, attribute and number."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


def flatten(value: Any) -> tuple[Structure, list[Any]]:
    """Return how the arrays in ``value`` are nested, and the arrays in order.

    Raises:
        UsageError: ``value`` holds an object that is neither an array, a number nor a container of these.
    """
    if value is None:
        return Structure(NONE), []
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Structure(ARRAY), [value]
    if isinstance(value, (bool, int, float)):
        return Structure(SCALAR), [value]
    keys: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        kind, keys, items = DICT if type(value) is dict else OUTPUT, tuple(map(str, value)), list(value.values())
    elif isinstance(value, (tuple, list)):
        kind, items = LIST if isinstance(value, list) else TUPLE, list(value)
    else:
        raise UsageError(
            f"a {type(value).__name__} cannot be passed to an exported model; use tensors, numbers, and lists, tuples "
            "and dicts of them, or run with --engine torch"
        )
    found = [flatten(each) for each in items]
    parts = tuple(structure for structure, _ in found)
    return Structure(kind, keys, parts), [array for _, arrays in found for array in arrays]


def rebuild(structure: Structure, arrays: Sequence[Any]) -> Any:
    """Put ``arrays`` together as ``structure`` says; the inverse of ``flatten``.

    A named tuple becomes a plain one.

    Raises:
        ValueError: the number of arrays is another one.
    """
    if len(arrays) != structure.count:
        raise ValueError(f"{len(arrays)} arrays do not fit a structure of {structure.count}")
    left = iter(arrays)

    def built(structure: Structure) -> Any:
        if structure.kind in (ARRAY, SCALAR):
            value = next(left)
            return value.item() if structure.kind == SCALAR and hasattr(value, "item") else value
        if structure.kind == NONE:
            return None
        parts = [built(part) for part in structure.parts]
        if structure.kind in (LIST, TUPLE):
            return parts if structure.kind == LIST else tuple(parts)
        found = zip(structure.keys, parts)
        return NamedOutput(found) if structure.kind == OUTPUT else dict(found)

    return built(structure)


PLAIN, CHANGED, ROUNDED = "plain", "changed", "rounded"


class Batch(msgspec.Struct, frozen=True):
    """A batch as the measuring worker reads it.

    Attributes:
        items: what each item of the batch is.
        inputs: how the input arrays are nested.
        outputs: how torch's outputs are nested.
        heads: names of the arrays that the raw heads of a detector return before NMS; empty for other models.
        flops: the operations that torch counts in a pass of the batch; ``None`` if it cannot.
    """

    items: tuple[str, ...]
    inputs: Structure
    outputs: Structure
    heads: tuple[str, ...] = ()
    flops: Flops | None = None


class TorchSource:
    """A workload's model as a torch module in fp32 and in eval mode on the CPU, its weights, and one batch.

    Everything is made when it is first used, once for all engines of a ``prepare`` process.
    """

    def __init__(self, workload: Workload, setting: ResolvedSetting, weights: Weights) -> None:
        self.workload, self.weights = workload, weights
        self._setting = setting

    @cached_property
    def loaded(self) -> Loaded:
        """The ``torch.nn.Module``; nothing may change it."""
        loaded = load_model(self.workload, self._setting.options, self.weights)
        loaded.module.requires_grad_(False)
        return loaded

    @property
    def module(self) -> Any:
        """That of ``loaded``."""
        return self.loaded.module

    @cached_property
    def inputs(self) -> Inputs:
        """The batch that is measured: nested tensors, in fp32 if the module was converted to it."""
        return self._as_converted(make_inputs(self.workload, self._setting, self.weights))

    def calibration_inputs(self) -> list[Inputs]:
        """Other batches of the workload's own inputs, from which a static recipe takes the ranges."""
        return list(map(self._as_converted, calibration_inputs(self.workload, self._setting, self.weights)))

    def _as_converted(self, made: Inputs) -> Inputs:
        return replace(made, args=in_fp32(made.args)) if self.loaded.converted else made

    @property
    def flat_inputs(self) -> tuple[Any, ...]:
        """The tensors and numbers of the batch, in order: the arguments of ``flat_module``, which may change them."""
        return tuple(each.clone() if hasattr(each, "clone") else each for each in flatten(self.inputs.args)[1])

    @cached_property
    def input_structure(self) -> Structure:
        """How the batch is nested."""
        return flatten(self.inputs.args)[0]

    @cached_property
    def state_sha256(self) -> str:
        """See ``state_sha256``."""
        return state_sha256(self.module)

    @cached_property
    def expected(self) -> tuple[Batch, dict[str, tuple[NDArray[Any], ...]]]:
        """The batch, and what torch computes from it in fp32, eager: what an engine's outputs are compared with.

        That is the arrays of the output, then those of the heads, by how they were computed: ``PLAIN``; ``CHANGED``,
        from inputs that differ by ``INPUT_CHANGE``, relatively, none if all inputs are integers; ``ROUNDED``, with
        every number rounded to bf16.
        """
        import torch

        from modelzoo.evidence.rounded import rounded_to

        flat = self.flat_module()
        changed = slightly_changed(self.flat_inputs)

        def arrays(inputs: Sequence[Any]) -> tuple[NDArray[Any], ...]:
            return tuple(each.detach().cpu().numpy() for each in flat(*inputs))

        with torch.no_grad():
            sides = {PLAIN: arrays(self.flat_inputs), CHANGED: () if changed is None else arrays(changed)}
            with rounded_to("bf16", self.module):
                sides[ROUNDED] = arrays(self.flat_inputs)
        names = flat.output_structure, flat.head_names
        return Batch(self.inputs.items, self.input_structure, *names, self.flops), sides

    @cached_property
    def flops(self) -> Flops | None:
        """The operations that torch counts in one pass of the batch; ``None`` if it cannot."""
        import torch

        from modelzoo.evidence.flops import FlopCountError, record_calls, sum_flops

        # Making them runs models too; and torch's exporter to ONNX leaves the module in training mode.
        self.module.eval()
        module, args = self.module, rebuild(self.input_structure, self.flat_inputs)
        try:
            with torch.no_grad():
                return sum_flops(record_calls(lambda: module(*args)))
        except FlopCountError:
            return None

    def flat_module(self) -> Any:
        """Return the module as one that takes and returns tensors only, for exporters.

        Its ``forward`` takes the tensors of ``flat_inputs`` and returns a tuple: the tensors of the output in order,
        then those of the raw heads. After a call, ``output_structure`` says how the former are nested, and
        ``head_names`` names the latter.
        """
        import torch

        heads = dict(self.workload.heads(self.module)) if self.workload.heads is not None else {}
        inputs = self.input_structure

        class FlatModule(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
            output_structure: Structure | None = None
            head_names: tuple[str, ...] = ()

            def __init__(self, module: Any) -> None:
                super().__init__()
                self.module = module

            def forward(self, *tensors: Any) -> Any:
                captured: dict[str, Any] = {}
                hooks = [
                    head.register_forward_hook(lambda _, __, output, name=name: captured.update({name: output}))
                    for name, head in heads.items()
                ]
                with temporary_hooks(hooks):
                    output = self.module(*rebuild(inputs, tensors))
                self.output_structure, found = flatten(output)
                structure, head_outputs = flatten({name: captured[name] for name in heads})
                self.head_names = structure.names()
                return (*found, *head_outputs)

        return FlatModule(self.module)


def in_fp32(args: Any) -> Any:
    """Return nested ``args`` with the floating-point tensors in fp32."""
    return mapped(args, lambda each: each.float() if _is_floating(each) else each)


def _is_floating(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and bool(value.is_floating_point())


def slightly_changed(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return ``inputs`` with every floating-point value off by about ``INPUT_CHANGE``, in the same way at each call.

    Returns:
        ``None`` if there are no such values.
    """
    import torch

    if not any(map(_is_floating, inputs)):
        return None
    generator = torch.Generator().manual_seed(0)

    def changed(value: Any) -> Any:
        if not _is_floating(value):
            return value
        noise = torch.randn(value.shape, generator=generator).to(value.device)
        return (value * (1 + INPUT_CHANGE * noise)).to(value.dtype)

    return tuple(map(changed, inputs))


def state_sha256(module: Any) -> str:
    """SHA-256 of a module's state dict: names, shapes, types and values of all tensors, by name."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(tensors_of(module).items()):
        array = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)} ".encode())
        digest.update(array.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
