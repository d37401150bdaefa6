"""Resolve the weights of a run, a published checkpoint, the user's own file, or random ones from a seed, and load them.

``--weights auto`` tries, in this order, the directory named by MODELZOO_WEIGHTS, the hubs' caches, a download, and
random weights with a warning.

Weights that are mapped from a file lie in the page cache, whose pages all processes share. Where the pages of a
process's own memory lie differs from process to process, and with it the speed; a benchmark has to see that.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import DamagedWeightsError, UsageError, WeightsError, first_line
from modelzoo.files import cache_directory, file_sha256, name_in_file, own_temporary_directory
from modelzoo.frozen import replace
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.warning import WarningCode, WarningMessage, warning_for
from modelzoo.workload.checkpoints import CONFIG, fetch_checkpoint, find_checkpoint, verify_checkpoint
from modelzoo.workload.declaration import SOURCES, InputRequest, Workload
from modelzoo.workload.discovery import code_sha256
from modelzoo.workload.initialization import skip_initialization
from modelzoo.workload.state import (
    WeightsNote,
    load_state_dict,
    phrases,
    read_state_dict,
    save_state_dict,
    split_member,
    tensors_of,
    type_kind,
    weights_files,
    weights_sha256,
)

RECIPE = 3
"""Version of how random weights are made, a part of their file name. Increase it if a change of ``resolve_weights`` or
``detectors`` changes the tensors; changes of ``workload.py`` and of the modules beside it are detected by checksum."""


def own_memory(model: Any) -> None:
    """Copy the parameters and buffers of a ``torch.nn.Module`` on the CPU, in place: they may lie in mapped files."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


def resolve_weights(workload: Workload, options: Mapping[str, Any], source: str, seed: int) -> Weights:
    """Find, download or generate the weights for a workload.

    Args:
        workload: the workload.
        options: its option values, all of them.
        source: value of ``--weights``: ``auto``, ``pretrained``, ``random`` or a path.
        seed: seed of random weights.

    Raises:
        WeightsError: ``source`` is a path without weights, or is ``pretrained`` and there is no usable checkpoint, or
            the checkpoint on this machine is damaged.
        UsageError: MODELZOO_WEIGHTS is not a directory.
    """
    source = workload.weights if source == "auto" else source
    if source not in SOURCES:
        own = Path(source).expanduser()
        files = weights_files(own)
        if not files:
            problem = "holds no weights" if split_member(own)[0].exists() else "does not exist"
            raise WeightsError(f"--weights {source}: it {problem}; give {', '.join(SOURCES)}, a file or a directory")
        return Weights(WeightsKind.PATH, own.name, str(own.resolve()), weights_sha256(files))
    if source == "random":
        return _random(workload, options, seed)
    checkpoint = workload.checkpoint(options)
    if checkpoint is None:
        missing = WeightsError(f"no published checkpoint for {workload.name}")
        if source == "pretrained":
            raise WeightsError(f"{missing}; use --weights random or a path")
        return replace(_random(workload, options, seed), problem=str(missing))
    try:
        path = find_checkpoint(checkpoint) or fetch_checkpoint(checkpoint)
        found = verify_checkpoint(checkpoint, path)
    except WeightsError as error:
        # auto falls back to random weights if there is no checkpoint. It does not hide a damaged one.
        if source == "pretrained" or isinstance(error, DamagedWeightsError):
            raise
        return replace(_random(workload, options, seed), problem=str(error))
    return Weights(WeightsKind.PRETRAINED, checkpoint.name, str(path), found.sha256, verification=found.verification)


def _random(workload: Workload, options: Mapping[str, Any], seed: int) -> Weights:
    """Generate weights from the seed once, and keep the file so that every process runs the same ones.

    It is among temporary files if the cache cannot be written to (a read-only root, for example).
    """
    import tempfile

    from safetensors import SafetensorError, safe_open

    # Weights are calibrated on the inputs. Options of the inputs have their defaults here, so that the weights do
    # not depend on them.
    options = {**options, **{option.name: option.default for option in workload.options if option.is_input}}
    directory = cache_directory() / "random"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError:
        directory = own_temporary_directory()
    path = directory / _random_file_name(workload, options, seed)
    try:
        with safe_open(str(path), framework="pt"):
            pass
    except (OSError, SafetensorError):
        save_state_dict(tensors_of(_random_model(workload, options, seed)), path)
    return Weights(WeightsKind.RANDOM, f"seed {seed}", str(path), file_sha256(path), seed)


def _random_file_name(workload: Workload, options: Mapping[str, Any], seed: int) -> str:
    """A name that differs wherever the tensors may: by options, seed, torch's version, recipe and declaration."""
    import torch

    values = "".join(f"-{option.name}{options[option.name]}" for option in workload.options if not option.is_input)
    recipe = ".".join(filter(None, (f"r{RECIPE}", code_sha256(workload.directory)[:8], workload.identity)))
    name = name_in_file(f"{workload.name}{values}")
    return f"{name}-{name_in_file(f'seed{seed}-torch{torch.__version__}-{recipe}')}.safetensors"


def _random_model(workload: Workload, options: Mapping[str, Any], seed: int) -> Any:
    import torch

    torch.manual_seed(seed)
    model = built(workload.build(options), f"build of workload {workload.name}")
    constants = _not_finite(model) - {name for name, _ in model.named_parameters()}
    if workload.randomize is not None:
        inputs = workload.inputs(InputRequest(batch=1, seed=seed, path=None, options=options))
        with torch.inference_mode(False), torch.no_grad():
            workload.randomize(model, inputs, seed)
    if wrong := sorted(_not_finite(model) - constants):
        raise WeightsError(f"random weights of {workload.name} are not finite in {wrong[0]}: report this as a bug")
    return model


def _not_finite(model: Any) -> set[str]:
    """The names of the tensors in the model's state that hold NaN or Inf, such as a mask of -inf."""
    import torch

    state = tensors_of(model).items()
    return {name for name, each in state if each.is_floating_point() and not torch.isfinite(each).all()}


def built(model: Any, source: str) -> Any:
    """Return ``model``, which ``source`` has made, in eval mode; its own ``eval`` may return nothing.

    Raises:
        UsageError: it is not a ``torch.nn.Module``.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{source} returned {type(model).__name__}, and must return a torch.nn.Module")
    model.eval()
    return model


class Loaded(msgspec.Struct, frozen=True):
    """A model in fp32.

    Attributes:
        module: the ``torch.nn.Module``.
        converted: the other types that its parameters and buffers had, by torch's name, with their share of all
            floating-point elements; empty if it was made in fp32.
        warnings: of that, and of what else was changed.
    """

    module: Any
    converted: dict[str, float]
    warnings: tuple[WarningMessage, ...]


def load_model(workload: Workload, options: Mapping[str, Any], weights: Weights) -> Loaded:
    """Return the workload's model with ``weights`` in it, in fp32 and eval mode on the CPU, in memory of its own.

    Raises:
        WeightsError: the weights cannot be read or do not fit the model.
        UsageError: the workload makes something else than a model.
    """
    import torch

    path = Path(weights.path)
    # Parameters that are created in inference mode cannot be compiled or traced outside of it.
    with torch.inference_mode(False), _noted() as found:
        if weights.kind != WeightsKind.RANDOM and workload.load is not None:
            model = built(workload.load(options, path), f"load of workload {workload.name}")
            own_memory(model)
            converted = convert_to_fp32(model)
        else:
            model = built(skip_initialization(lambda: workload.build(options)), f"build of workload {workload.name}")
            converted = convert_to_fp32(model)  # first, or weights in fp32 would be rounded to the model's type
            digests = [checkpoint.digest for checkpoint in workload.checkpoints()]
            load_state_dict(model, read_state_dict(path, digests), path)
    if converted:
        types = ", ".join(f"{100 * share:.0f} % {name}" for name, share in converted.items())
        found.append(warning_for(WarningCode.CONVERTED_WEIGHTS, types=types))
    return Loaded(model, converted, tuple(found))


@contextlib.contextmanager
def _noted() -> Iterator[list[WarningMessage]]:
    """Collect what ``load_state_dict`` says; other warnings are given again."""
    found: list[WarningMessage] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", WeightsNote)
        yield found
    for each in said:
        if each.category is WeightsNote:
            found.append(warning_for(WarningCode.RENAMED_WEIGHTS, detail=str(each.message)))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def convert_to_fp32(model: Any) -> dict[str, float]:
    """Convert parameters and buffers in bf16, fp16 and fp64 to fp32, in place, as ``model.float()`` does.

    Buffers in fp64 stay if no parameter is in fp64: they are tables that a model reads in fp64 on purpose. Integers,
    complex numbers and fp8, which means nothing without its scales, stay as they are.

    Returns:
        What was converted, as ``Loaded.converted`` has it.
    """
    import torch

    parameters, buffers = list(model.parameters()), list(model.buffers())
    kinds = {each.dtype for each in parameters} & {torch.bfloat16, torch.float16, torch.float64}
    kinds |= {each.dtype for each in buffers} & {torch.bfloat16, torch.float16}
    if not kinds:
        return {}
    sizes = Counter[Any]()
    for each in (*parameters, *buffers):
        if each.is_floating_point():
            sizes[each.dtype] += each.numel()
    model._apply(lambda tensor: tensor.float() if tensor.dtype in kinds else tensor)
    total = sum(sizes.values())
    return {str(kind).removeprefix("torch."): sizes[kind] / total for kind in sorted(kinds, key=str) if sizes[kind]}


COMPUTED = (".attn.bias", ".attention.bias", ".masked_bias", ".inv_freq", "position_ids")
"""Ends of the names of tables that models compute today, and that earlier releases stored with the weights."""


def load_pretrained(architecture: Any, path: Path, unused: Sequence[str] = (), published: Sequence[str] = ()) -> Any:
    """Return the model in a checkpoint directory, in fp32; its config decides the size.

    transformers loads it as ``from_pretrained`` does: it maps the names of older releases, ties tensors, and decides
    which buffers keep their type. It gets the tensors that ``read_state_dict`` has read, so that no code in the
    directory runs, and the hub is not asked.

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
