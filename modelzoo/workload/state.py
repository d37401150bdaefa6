"""Read a model's tensors from a file, and load them into the model.

Files are read as safetensors, or with ``weights_only=True`` where that is safe (``pickles``): code in a checkpoint
never runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from modelzoo.errors import WeightsError
from modelzoo.workload.pickles import refuse_unsafe

REPOSITORY_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights file in a checkpoint directory, in order of preference."""


def weights_file(path: Path) -> Path | None:
    """Return the file that holds the tensors.

    Args:
        path: a weights file, or a checkpoint directory in Hugging Face's layout.

    Returns:
        ``path`` itself if it is a file, or else the weights file in the directory; ``None`` if there is no such file.
    """
    if path.is_file():
        return path
    return next((path / name for name in REPOSITORY_WEIGHTS if (path / name).is_file()), None)


def read_state_dict(path: Path, published: Collection[str] = ()) -> dict[str, Any]:
    """Read tensors by name from a ``.safetensors`` file, or from a pickle with ``weights_only=True``.

    Args:
        path: the file.
        published: digests of published checkpoints (``Checkpoint.digest``). Below torch 2.10, no other pickles are
            read, because crafted ones could run code there.

    Raises:
        WeightsError: the file is truncated, is not a state dict, or holds objects other than tensors; or this torch
            cannot read it safely.
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(str(path)))
        refuse_unsafe(path, torch.__version__, published)
        state = torch.load(str(path), map_location="cpu", weights_only=True)
    except WeightsError:
        raise
    except Exception as error:  # pickle, zipfile and safetensors each raise their own exceptions
        raise WeightsError(
            f"{path} cannot be read as weights: {_reason(error)}; fetch it again, or name another file"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()
    ):
        raise WeightsError(f"{path} is not a state dict (names to tensors); save model.state_dict()")
    return state


def _reason(error: Exception) -> str:
    """Describe a read error in one line, without torch's suggestion to set ``weights_only=False``."""
    if isinstance(error, pickle.UnpicklingError):
        return "it is not a checkpoint, or holds more than tensors (code in it was not run)"
    line = (str(error).strip().splitlines() or [""])[0]
    return line if " " in line else f"it is not a checkpoint ({type(error).__name__})"


def load_state_dict(model: Any, state: Mapping[str, Any], path: Path) -> None:
    """Load ``state`` into ``model``; every name and shape must match.

    Args:
        model: a ``torch.nn.Module``.
        state: tensors by name.
        path: the file that ``state`` comes from, for the error message.

    Raises:
        WeightsError: names or shapes differ; the message counts the mismatches and names the first of each kind.
    """
    expected = without_counters(model.state_dict())
    given = without_counters(state)
    found = mismatches(expected, given)
    if found:
        raise WeightsError(f"{path} does not fit the model: {'; '.join(found)}; give a checkpoint of this workload")
    model.load_state_dict(given, strict=False)


def without_counters(state: Mapping[str, Any]) -> dict[str, Any]:
    """Drop batch norm's call counter: inference never reads it, and checkpoints older than torch 0.4.1 lack it."""
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def mismatches(expected: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Compare names and shapes of the arrays that a model expects with those given; of any library.

    Returns:
        One phrase for each kind of mismatch; empty if all names and shapes are the same.
    """
    found = []
    if missing := sorted(expected.keys() - given.keys()):
        found.append(f"{len(missing)} tensors missing (first: {missing[0]})")
    if unknown := sorted(given.keys() - expected.keys()):
        found.append(f"{len(unknown)} unknown (first: {unknown[0]})")
    common = sorted(expected.keys() & given.keys())
    if reshaped := [name for name in common if tuple(expected[name].shape) != tuple(given[name].shape)]:
        first = reshaped[0]
        found.append(
            f"{len(reshaped)} of another shape (first: {first} is {tuple(given[first].shape)}, the model needs "
            f"{tuple(expected[first].shape)})"
        )
    return found
