"""Build a model whose weights are loaded afterwards, without drawing random numbers that are overwritten.

Drawing the initial values of BERT-base takes longer than loading its weights. The model's tensors are allocated as in
a normal build and filled by ``load_state_dict``, so the weights end in the same kind of memory either way. Building on
the ``meta`` device is no alternative: tensors that are not in the state dict, such as a detector's anchors, would be
left without values.
"""

from __future__ import annotations

import io
import pickle
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Callable

_IN_PLACE = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_")
# A TorchFunctionMode is told of these functions of torch.nn.init, and does not see what they call.
_FILLS = frozenset((*_IN_PLACE, "kaiming_uniform_", "kaiming_normal_"))
"""What fills a tensor with random numbers, as a method or as a function of ``torch.nn.init`` or of transformers."""
_READS = frozenset(
    ("item", "tolist", "numpy", "__array__", "__bool__", "__float__", "__int__", "is_nonzero", "equal", "allclose")
)
"""What makes something other than a tensor from a tensor's values."""


def skip_initialization(build: Callable[[], Any]) -> Any:
    """Build a model whose state dict will be overwritten completely.

    Calls that fill a tensor with random numbers do nothing meanwhile. The model is built again, normally, if that
    could change anything but its state dict: if it holds another tensor that was to be filled, or that was computed
    from one that was; or if it draws other random numbers, which normally follow those of the initialization.

    Args:
        build: creates the ``torch.nn.Module``; may be called twice.
    """
    import torch

    state = torch.get_rng_state()
    model = _built_unfilled(build)
    if model is None or not torch.equal(state, torch.get_rng_state()):
        torch.set_rng_state(state)
        return build()
    return model


def _built_unfilled(build: Callable[[], Any]) -> Any:
    """The model without initial values; ``None`` if more than its state dict may depend on them."""
    from torch.overrides import TorchFunctionMode

    unfilled: dict[int, Any] = {}  # tensors by address; an address is not used again while its tensor is here

    class Unfilled(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name in _FILLS:
                tensor = args[0] if args else kwargs["tensor"]
                if tensor.numel():  # empty tensors have one address
                    unfilled[_address(tensor)] = tensor
                return tensor
            result = func(*args, **kwargs)
            if any(_address(tensor) in unfilled for tensor in _tensors((*args, *kwargs.values()))):
                if name in _READS:
                    raise _ValueNeededError
                unfilled.update((_address(tensor), tensor) for tensor in _tensors((result,)) if tensor.numel())
            return result

    try:
        with Unfilled():
            model = build()
        held = _held_addresses(model)
    except Exception:  # a constructor may refuse such values; if there is another reason, a normal build shows it
        return None
    loaded = {_address(tensor) for tensor in model.state_dict().values()}
    return model if unfilled.keys() & held <= loaded else None


class _ValueNeededError(Exception):
    """The build depends on a random number that was not drawn."""


def _held_addresses(model: Any) -> set[int]:
    """The addresses of all tensors that ``model`` refers to, be they parameters, buffers or plain attributes.

    Raises:
        Exception: it holds an object that cannot be looked into.
    """
    import torch

    held: set[int] = set()

    class Explorer(pickle.Pickler):
        """Pickling visits every object; those with a ``persistent_id`` are not looked into."""

        def persistent_id(self, value: Any) -> str | None:
            if isinstance(value, torch.Tensor):
                held.add(_address(value))
                return "tensor"
            return "code" if isinstance(value, (type, FunctionType, BuiltinFunctionType, ModuleType)) else None

    Explorer(io.BytesIO()).dump(model)
    return held


def _tensors(values: tuple[Any, ...]) -> list[Any]:
    """The tensors among ``values``, and in lists and tuples among them."""
    import torch

    flat = [each for value in values for each in (value if isinstance(value, (list, tuple)) else (value,))]
    return [value for value in flat if isinstance(value, torch.Tensor)]


def _address(tensor: Any) -> int:
    """The address of the memory that holds a tensor, which is the same for all of its views."""
    untyped = getattr(tensor, "untyped_storage", None)  # torch 2.0 and newer
    address: int = (tensor.storage() if untyped is None else untyped()).data_ptr()
    return address
