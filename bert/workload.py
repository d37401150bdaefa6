"""BERT for extractive question answering (transformers), SQuAD 1.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelzoo.errors import WeightsError
from modelzoo.validity import Answers
from modelzoo.workload import Checkpoint, InputRequest, Inputs, Option, Workload, read_text

CHECKPOINTS = {
    "base": Checkpoint(
        "csarron/bert-base-uncased-squad-v1",
        "csarron/bert-base-uncased-squad-v1",
        440,
        {"em": 80.9, "f1": 88.2},
    ),
    "large": Checkpoint(
        "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad",
        "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad",
        1340,
        {"em": 86.91, "f1": 93.15},
    ),
}
SIZES = {
    "base": {},
    "large": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
}
PASSAGES = Path(__file__).with_name("passages.txt")
QUESTIONS = (
    "How much slower was the multiplication on Mondays?",
    "Who built the oldest bridge?",
    "How many fraction bits does the format keep?",
    "What decided how much the shorter number format could help?",
)


def build(options: Mapping[str, Any]) -> Any:
    from transformers import BertConfig, BertForQuestionAnswering

    return answering(BertForQuestionAnswering(BertConfig(**SIZES[options["size"]])))


def answering(bert: Any) -> Any:
    """Wrap the model: (ids, attention mask, segment ids), each (batch, sequence), to (start, end) logits.

    Tensors in and a tuple of tensors out is what tracing and compiling need.
    """
    import torch

    class Answering(torch.nn.Module):
        def __init__(self, bert: Any) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments, return_dict=False)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.bert.state_dict(*args, **kwargs)

        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.bert.load_state_dict(*args, **kwargs)

    return Answering(bert)


def load(options: Mapping[str, Any], path: Path) -> Any:
    """A checkpoint directory in transformers' format; its own config decides the size."""
    from transformers import BertConfig, BertForQuestionAnswering

    from modelzoo.workload.state import load_state_dict, read_state_dict, weights_file

    if not (path / "config.json").is_file():
        raise WeightsError(f"{path} has no config.json; give the directory of a BertForQuestionAnswering checkpoint")
    try:
        config = BertConfig.from_pretrained(str(path))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}/config.json cannot be read: {str(error).splitlines()[0]}") from error
    if config.model_type != "bert":
        raise WeightsError(f"{path} holds a {config.model_type!r} model, and this workload needs 'bert'")
    model = BertForQuestionAnswering(config)
    file = weights_file(path)
    if file is None:
        raise WeightsError(f"{path} holds neither model.safetensors nor pytorch_model.bin")
    # Not from_pretrained: it fills what is missing with random numbers and only logs that it did.
    names = set(model.state_dict())
    state = {key: value.float() if value.is_floating_point() else value for key, value in read_state_dict(file).items()}
    # The pooler and position ids of older checkpoints are no part of this model's inference.
    unused = {k for k in state if k not in names and (".pooler." in k or k.endswith("position_ids"))}
    load_state_dict(model, {key: value for key, value in state.items() if key not in unused}, file)
    return answering(model)


def tokenizer(model_path: Path | None, texts: list[str]) -> Any:
    """The checkpoint's tokenizer, or one trained on ``texts`` where there is no checkpoint.

    BERT's time does not depend on which ids it gets, so the latter serves random weights.
    """
    if model_path is not None and model_path.is_dir():
        from transformers import BertTokenizerFast

        return BertTokenizerFast.from_pretrained(str(model_path))
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    own = BertWordPieceTokenizer(lowercase=True)
    own.train_from_iterator(texts, vocab_size=8000, min_frequency=1, show_progress=False)
    return BertTokenizerFast(tokenizer_object=own._tokenizer, do_lower_case=True)


def inputs(request: InputRequest) -> Inputs:
    """Question and passage pairs, every sequence filled to its full length with distinct text."""
    length = request.options["sequence"]
    path = request.path or PASSAGES
    text = read_text(path)
    encode = tokenizer(request.model_path, [text, *QUESTIONS])
    words = text.split()
    rows, items = [], []
    for number in range(request.batch):
        question = QUESTIONS[number % len(QUESTIONS)]
        start = (number * 97 + request.seed) % len(words)  # another stretch of the text for each
        passage = words[start:] + words[:start]
        # A short text is repeated so that the sequence is full, as a server's padded batches cost.
        passage *= 1 + length // max(1, len(passage))
        rows.append((question, " ".join(passage)))
        items.append(f"{path.name} from word {start}: {question}")
    encoded = encode(
        [q for q, _ in rows],
        [p for _, p in rows],
        truncation="only_second",
        max_length=length,
        padding="max_length",
        return_tensors="pt",
    )
    return Inputs((encoded["input_ids"], encoded["attention_mask"], encoded["token_type_ids"]), tuple(items))


WORKLOAD = Workload(
    name="bert",
    title="BERT question answering (transformers), SQuAD 1.1",
    unit="questions",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINTS[options["size"]],
    load=load,
    options=(
        Option("size", "base", "base (12 layers, hidden 768) or large (24, 1024)", str, ("base", "large")),
        Option("sequence", 384, "tokens of question and passage together, 16 to 512", int, None, 16, 512, True),
    ),
    judge=Answers(lambda path: tokenizer(path, [read_text(PASSAGES)]), published=CHECKPOINTS["base"].quality),
    defaults="BERT-base, batch 1, 384 tokens, every sequence full",
)
