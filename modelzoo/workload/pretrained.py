"""Load a checkpoint directory of transformers as its own ``from_pretrained`` does, from files that were checked before.

transformers maps the names of older releases, ties tensors, and decides which buffers keep their type. It gets the
tensors that ``read_state_dict`` has read, so that no code in the directory runs, and the hub is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelzoo.errors import WeightsError, first_line
from modelzoo.workload.checkpoints import CONFIG
from modelzoo.workload.state import phrases, read_state_dict, type_kind

COMPUTED = (".attn.bias", ".attention.bias", ".masked_bias", ".inv_freq", "position_ids")
"""Ends of the names of tables that models compute today, and that earlier releases stored with the weights."""


def load_pretrained(architecture: Any, path: Path, unused: Sequence[str] = (), published: Sequence[str] = ()) -> Any:
    """Return the model in a checkpoint directory, in fp32; its config decides the size.

    Args:
        architecture: a class of transformers, such as ``AutoModelForCausalLM``.
        path: the directory.
        unused: parts of the names of tensors that may be in the checkpoint, and that this architecture does not use.
        published: as for ``read_state_dict``.

    Raises:
        WeightsError: the directory holds no such model, needs code of its own, or is quantized; or names, shapes or
            types of its tensors are not those of the model, where ``from_pretrained`` would take random numbers.
    """
    import torch

    outline = _outline(architecture, path)
    state = dict(read_state_dict(path, published))
    config, kind = outline.config, type(outline)
    try:
        model, info = kind.from_pretrained(
            None,
            config=config,
            state_dict=state,
            torch_dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported below
        )
    except Exception as error:  # what it raises for a tensor depends on how it converts it
        raise WeightsError(f"{path} cannot be loaded as {kind.__name__}: {first_line(error)}") from error
    unknown = [each for each in info["unexpected_keys"] if not any(part in each for part in unused)]
    unknown = [each for each in unknown if not each.endswith(COMPUTED)]
    found = phrases(info["missing_keys"], unknown, list(info["mismatched_keys"]))
    # With or without the prefix of the base model.
    numbers = [f".{name}" for name, _ in model.named_parameters()]
    others = [name for name in state if type_kind(state[name]) != "floating"]
    wrong = [each for each in others if any(f".{each}".endswith(n) or n.endswith(f".{each}") for n in numbers)]
    if wrong:
        found.append(f"{len(wrong)} of another type (first: {wrong[0]} is {state[wrong[0]].dtype})")
    if found:
        raise WeightsError(f"{path} does not fit {kind.__name__}: {'; '.join(found)}; give a checkpoint of this model")
    return model


def _outline(architecture: Any, path: Path) -> Any:
    """The model that the config describes, without memory for its tensors."""
    import torch
    from transformers import AutoConfig

    if not (path / CONFIG).is_file():
        raise WeightsError(f"{path} has no {CONFIG}; give the directory of a checkpoint for {architecture.__name__}")
    try:
        config = AutoConfig.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
        if getattr(config, "quantization_config", None) is not None:
            raise WeightsError(f"{path} is quantized, and every precision starts from fp32; give its original")
        wanted = getattr(architecture, "config_class", None)
        if wanted is not None and not isinstance(config, wanted):
            raise WeightsError(
                f"{path} holds a {config.model_type!r} model, and this workload needs {wanted.model_type!r}"
            )
        with torch.device("meta"):
            if wanted is not None:
                return architecture(config)
            return architecture.from_config(config, trust_remote_code=False)
    except WeightsError:
        raise
    except Exception as error:  # a config is code's input, so it may fail anywhere
        if "trust_remote_code" in str(error):
            raise WeightsError(
                f"{path}/{CONFIG} needs code of its own (auto_map), which is never run; give a checkpoint whose "
                "architecture transformers has, or build it in a workload.py of your own"
            ) from error
        problem = f"{path}/{CONFIG} is of no {architecture.__name__} that can be built"
        raise WeightsError(f"{problem}: {first_line(error)}") from error


def read_tokenizer(kind: Any, path: Path) -> Any:
    """Return the tokenizer in a checkpoint directory; ``kind``: a class of transformers, such as ``AutoTokenizer``.

    Raises:
        WeightsError: there is none that can be read without running code of its own.
    """
    problem = f"{path} holds no tokenizer that can be read"
    try:
        found = kind.from_pretrained(str(path), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # tokenizers' are plain exceptions
        raise WeightsError(f"{problem}: {first_line(error)}") from error
    files = found.vocab_files_names.values()
    if files and not any((path / name).is_file() for name in files):  # transformers makes one without a vocabulary
        raise WeightsError(f"{problem}: none of {', '.join(files)}")
    return found
