"""Models of transformers: ``hf:ORGANIZATION/NAME``, ``hf:DIRECTORY``, or ``hf:config=BertConfig,num_hidden_layers=2``.

The architecture of a checkpoint's config, or the argument ``architecture`` of a config, decides what is measured.
Causal language models are timed token by token and judged as ``llm`` is, question answering as ``bert`` is, image
classification as ``resnet50`` is; what has no judge is timed, and its outputs in reduced precision are compared with
fp32 by the audit.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import UsageError, WeightsError, first_line, suggestion
from modelzoo.validity import Answers, Classification, wnids
from modelzoo.workload import (
    Checkpoint,
    InputRequest,
    Inputs,
    Option,
    Workload,
    load_pretrained,
    pictures,
    read_tokenizer,
)
from modelzoo.workload.checkpoints import CONFIG, find_config
from modelzoo.zoo.causal import language_model, texts

TASKS = {
    "ForCausalLM": ("causal language model", "prompts"),
    "LMHeadModel": ("causal language model", "prompts"),
    "ForQuestionAnswering": ("question answering", "questions"),
    "ForSequenceClassification": ("text classification", "texts"),
    "ForTokenClassification": ("token classification", "texts"),
    "ForMaskedLM": ("masked language model", "texts"),
    "ForImageClassification": ("image classification", "images"),
    "ForCTC": ("speech recognition", "clips"),
    "ForAudioClassification": ("audio classification", "clips"),
}
"""By the end of an architecture's name: what it does, and what throughput counts. Others are encoders of ``items``."""
SEQUENCE = 128
SAMPLE_RATE = 16_000
"""Samples of the one second of noise that a model of raw audio gets."""
TARGET_TOKENS = 16
"""Tokens that a decoder gets beside the encoder's input."""
LONGEST = 8192
"""Tokens of a text, at most, for architectures without a table of positions."""
PROCESSOR = "preprocessor_config.json"
ALIKE = 0.9
"""Share of a classifier's labels that must be names of ImageNet's classes, in order; a few are spelled otherwise."""


def names() -> list[str]:
    """The configs that can be named."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return [f"config={name}" for name in sorted(set(CONFIG_MAPPING_NAMES.values()))]


def workload(name: str) -> Workload:
    """Return the workload of a checkpoint, or of a config with random weights.

    Raises:
        UsageError: there is no such config, argument or architecture, or the model needs code of its own.
        WeightsError: the checkpoint is not on this machine, and cannot be downloaded.
    """
    directory = Path(name).expanduser()
    if name.startswith("config="):
        return declared(name, named_config(name), None, None, "auto")
    if (directory / CONFIG).is_file():
        place = directory.absolute()
        return declared(directory.name, read_config(place, name), place, None, str(place))
    place = find_config(name)
    return declared(name, read_config(place, name), place, Checkpoint(name, name, None), "auto")


def named_config(text: str) -> Any:
    """Return the config that ``config=CLASS,argument=value,…`` describes.

    Raises:
        UsageError: there is no such class or argument, or a value is not of its default's type.
    """
    import transformers

    (_, kind), *arguments = [each.partition("=")[::2] for each in text.split(",")]
    known = [each.removeprefix("config=") for each in names()]
    if kind not in known:
        raise UsageError(f"transformers has no config {kind!r}{suggestion(kind, known)}; modelzoo list hf: prints them")
    try:
        defaults = getattr(transformers, kind)()
        values, given = defaults.to_dict(), dict[str, Any]()
        for argument, value in arguments:
            if argument == "architecture":
                given["architectures"] = [value]
                continue
            argument = defaults.attribute_map.get(argument, argument)
            if argument not in values:
                raise UsageError(f"hf:{text}: {kind} has no argument {argument!r}{suggestion(argument, list(values))}")
            default = values[argument]
            try:
                given[argument] = msgspec.convert(value, int | str if default is None else type(default), strict=False)
            except msgspec.ValidationError:
                raise UsageError(f"hf:{text}: {argument} cannot be {value!r}; its default is {default!r}") from None
        return type(defaults)(**{"architectures": [kind.removesuffix("Config") + "Model"], **given})
    except UsageError:
        raise
    except Exception as error:  # a constructor checks its arguments as it likes
        raise UsageError(f"hf:{text}: {kind} cannot be made: {first_line(error)}") from error


def read_config(place: Path, name: str) -> Any:
    """Return the config of a checkpoint directory.

    Raises:
        UsageError: it needs code of its own, or names no architecture of transformers.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(place), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a config is code's input, so it may fail anywhere
        raise UsageError(f"hf:{name}: its config.json cannot be read: {first_line(error)}") from error
    if not config.architectures:
        raise UsageError(f'hf:{name}: its config.json names no architecture; add "architectures": ["BertModel"]')
    return config


def declared(name: str, config: Any, place: Path | None, checkpoint: Checkpoint | None, weights: str) -> Workload:
    """Return the workload of the model that ``config``, of the checkpoint in ``place`` if there is one, describes.

    Raises:
        UsageError: transformers has no such architecture, or its inputs cannot be made here.
    """
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES as ANSWERING

    architecture = config.architectures[0]
    if architecture not in dir(transformers):
        raise UsageError(
            f"hf:{name}: transformers {transformers.__version__} has no architecture {architecture}, and code of a "
            "checkpoint is never run; build it in a workload.py of your own"
        )
    does, unit = next((words for end, words in TASKS.items() if architecture.endswith(end)), ("encoder", "items"))
    values = config.to_dict()
    if {"text_config", "vision_config", "audio_config"} & values.keys():
        raise UsageError(f"hf:{name}: {architecture} has inputs that cannot be made here; write a workload.py")
    digest = hashlib.sha256(config.to_json_string(use_diff=False).encode()).hexdigest()
    common: dict[str, Any] = {
        "name": f"hf:{name}",
        "title": f"{architecture} (transformers), {does}",
        "weights": weights,
        "identity": f"transformers{transformers.__version__}-{digest[:8]}",
    }

    def untrained(options: Mapping[str, Any]) -> Any:
        try:
            return getattr(transformers, architecture)(config)
        except Exception as error:  # sizes that do not fit each other
            raise UsageError(f"hf:{name}: {architecture} cannot be built: {first_line(error)}") from error

    if does == "causal language model":
        return language_model(untrained=untrained, checkpoint=lambda options: checkpoint, **common)

    def build(options: Mapping[str, Any]) -> Any:
        return positional(untrained(options))

    def load(options: Mapping[str, Any], path: Path) -> Any:
        return positional(load_pretrained(getattr(transformers, architecture), path, unused=(".pooler.",)))

    is_classifier = does == "image classification"

    def prepared(picture: Any, as_trained: bool) -> Any:
        return normalized(picture, config) if place is None or not as_trained else processor(place)(picture)

    def inputs(request: InputRequest) -> Inputs:
        is_own = is_classifier and place is not None and (place / PROCESSOR).is_file()
        return sample_inputs(getattr(transformers, architecture), config, request, partial(prepared, as_trained=is_own))

    def judge(options: Mapping[str, Any]) -> Answers | Classification:
        if is_classifier:
            labels = [config.id2label[number] for number in range(config.num_labels)]
            ids = wnids() if is_imagenet(labels) else None
            as_trained = partial(prepared, as_trained=True)
            return Classification(as_trained, lambda: labels, lambda: ids, scores=lambda output: output[0])
        return answering(architecture, options["sequence"])

    has_text = "vocab_size" in values and not {"conv_dim", "num_mel_bins", "image_size"} & values.keys()
    # RoBERTa's tables have two positions more than can be used.
    positions = (getattr(config, "max_position_embeddings", None) or LONGEST) // 8 * 8
    sequence = Option(
        name="sequence",
        default=min(SEQUENCE, positions),
        help=f"tokens of each text, 8 to {positions}",
        type=int,
        minimum=8,
        maximum=positions,
        is_input=True,
    )
    return Workload(
        unit=unit,
        build=build,
        inputs=inputs,
        checkpoint=lambda options: checkpoint,
        load=load,
        options=(sequence,) if has_text else (),
        judge=judge if is_classifier or (has_text and architecture in ANSWERING.values()) else None,
        libraries=("transformers",),
        **common,
    )


def arguments_of(architecture: Any) -> list[str]:
    """The tensors that a model of transformers gets here, in the order of its ``forward``."""
    taken = inspect.signature(architecture.forward).parameters
    text = ("attention_mask", "token_type_ids") if architecture.main_input_name == "input_ids" else ()
    wanted = (architecture.main_input_name, *text, "decoder_input_ids")
    return [name for name in taken if name in wanted]


def positional(model: Any) -> Any:
    """Wrap a model of transformers so that it takes tensors by position and returns a tuple of tensors.

    Tracing, compiling and exporting need that. Caches are not computed.
    """
    import torch

    names = arguments_of(type(model))
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False

    class Positional(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            found = self.model(**dict(zip(names, args)), return_dict=True)
            return tuple(each for each in found.to_tuple() if isinstance(each, torch.Tensor))

    return Positional()


def sample_inputs(architecture: Any, config: Any, request: InputRequest, prepared: Callable[[Any], Any]) -> Inputs:
    """One batch: text of the checkpoint's tokenizer or random ids, ``prepared`` pictures, or noise as audio.

    Raises:
        UsageError: the model takes something else.
    """
    import torch

    generator = torch.Generator().manual_seed(request.seed + 7919 * request.skip)
    main, names, count = architecture.main_input_name, arguments_of(architecture), request.batch
    made: dict[str, Any] = {}
    items = [f"item {number}" for number in range(request.skip, request.skip + count)]
    if main == "input_ids" and "sequence" in request.options:
        length = request.options["sequence"]
        if request.model_path is not None:
            made = dict(tokenized(request, length))
        else:
            made["input_ids"] = torch.randint(config.vocab_size, (count, length), generator=generator)
        made.setdefault("attention_mask", torch.ones_like(made["input_ids"]))
        made.setdefault("token_type_ids", torch.zeros_like(made["input_ids"]))
    elif main == "pixel_values":
        chosen = pictures(count, request.seed, request.path, request.skip)
        made["pixel_values"] = torch.stack([prepared(picture) for picture, _ in chosen])
        items = [name for _, name in chosen]
    elif main == "input_values" and hasattr(config, "conv_dim"):
        made["input_values"] = torch.randn(count, SAMPLE_RATE, generator=generator)
    elif main == "input_features" and hasattr(config, "num_mel_bins"):
        frames = 2 * getattr(config, "max_source_positions", SAMPLE_RATE // 320)
        made["input_features"] = torch.randn(count, config.num_mel_bins, frames, generator=generator)
    else:
        raise UsageError(f"{architecture.__name__} takes {main}, which cannot be made here; write a workload.py")
    if "decoder_input_ids" in names:
        made["decoder_input_ids"] = torch.randint(config.vocab_size, (count, TARGET_TOKENS), generator=generator)
    return Inputs(tuple(made[name] for name in names), tuple(items))


def tokenized(request: InputRequest, length: int) -> Mapping[str, Any]:
    """Texts, each of exactly ``length`` tokens."""
    from transformers import AutoTokenizer

    assert request.model_path is not None
    tokenizer = read_tokenizer(AutoTokenizer, request.model_path)
    words = [text for text, _ in texts(request, length)]
    found: Mapping[str, Any] = tokenizer(words, truncation=True, max_length=length, return_tensors="pt")
    return found


@cache
def processor(place: Path) -> Callable[[Any], Any]:
    """Return what makes a tensor [3, height, width] of a picture, by the checkpoint in ``place``.

    Raises:
        WeightsError: it does not say how.
    """
    from transformers import AutoImageProcessor

    if not (place / PROCESSOR).is_file():
        raise WeightsError(f"{place} has no {PROCESSOR}, which says how pictures are prepared; put it there")
    try:
        found = AutoImageProcessor.from_pretrained(str(place), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a config is code's input, so it may fail anywhere
        raise WeightsError(f"{place / PROCESSOR} cannot be used: {first_line(error)}") from error
    return lambda picture: found(picture, return_tensors="pt")["pixel_values"][0]


def normalized(picture: Any, config: Any) -> Any:
    """A picture as a tensor [3, height, width] in [-1, 1], as ViT's processor makes it."""
    from torchvision.transforms.functional import pil_to_tensor

    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return pil_to_tensor(picture.resize((width, height))).float() / 127.5 - 1


def is_imagenet(labels: Sequence[str]) -> bool:
    """Whether a classifier's labels are ImageNet's 1,000 classes, in their order."""
    from torchvision.models import ResNet50_Weights

    known = ResNet50_Weights.DEFAULT.meta["categories"]
    alike = sum(name in label.split(", ") for name, label in zip(known, labels))
    return len(labels) == len(known) and alike >= ALIKE * len(known)


def answering(architecture: str, length: int) -> Answers:
    """SQuAD's EM and F1, in windows of ``length`` tokens, a third of which neighbouring windows share."""
    import transformers

    names = arguments_of(getattr(transformers, architecture))
    return Answers(
        tokenizer=lambda path: read_tokenizer(transformers.AutoTokenizer, path) if path is not None else no_tokenizer(),
        arguments=lambda windows: tuple(windows[name] for name in names),
        max_length=length,
        stride=min(128, length // 3),
    )


def no_tokenizer() -> Any:
    raise WeightsError("random weights have no tokenizer, so answers cannot be judged; give --weights DIR")
