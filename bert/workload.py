"""BERT for extractive question answering (transformers), SQuAD 1.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from modelzoo.validity import (
    Answers,
    Question,
    Windows,
    best_span,
    builtin_passages,
    builtin_questions,
    paragraph_offsets,
    qa_arguments,
)
from modelzoo.workload import (
    Checkpoint,
    InputRequest,
    Inputs,
    ModelInput,
    ModelOutput,
    Option,
    Stage,
    Stages,
    Workload,
    load_pretrained,
    read_text,
    read_tokenizer,
)

CHECKPOINTS = {
    "base": Checkpoint(
        name="csarron/bert-base-uncased-squad-v1",
        source="csarron/bert-base-uncased-squad-v1",
        megabytes=440,
        quality={"em": 80.9, "f1": 88.2},
    ),
    "large": Checkpoint(
        name="google-bert/bert-large-uncased-whole-word-masking-finetuned-squad",
        source="google-bert/bert-large-uncased-whole-word-masking-finetuned-squad",
        megabytes=1340,
        quality={"em": 86.91, "f1": 93.15},
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
PUBLISHED_SEQUENCE = 384
"""Tokens per window with which the published quality was measured."""
MAX_STRIDE = 128
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 8000
"""Tokens without a checkpoint; fewer than the 30,522 of BERT's embedding."""
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
    """Wrap the model so that it takes and returns tensors, as tracing and compiling require.

    Its arguments are ids, attention mask and segment ids, each (batch, sequence); it returns start and end logits.
    """
    import torch

    class Answering(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self, bert: Any) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments, return_dict=False)

    return Answering(bert)


def load(options: Mapping[str, Any], path: Path) -> Any:
    """Load a checkpoint directory in transformers' format; its config decides the size."""
    from transformers import BertForQuestionAnswering

    # Older checkpoints hold a pooler.
    return answering(load_pretrained(BertForQuestionAnswering, path, unused=(".pooler.",)))


def tokenizer(model_path: Path | None, texts: list[str]) -> Any:
    """Return the checkpoint's tokenizer, or make one for ``texts`` if there is no checkpoint.

    The latter is sufficient for random weights: BERT's time does not depend on the values of the ids.
    """
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    if model_path is not None:
        return read_tokenizer(BertTokenizerFast, model_path)
    own = BertWordPieceTokenizer(vocabulary(texts), lowercase=True)
    return BertTokenizerFast(tokenizer_object=own._tokenizer, do_lower_case=True)


def vocabulary(texts: list[str]) -> dict[str, int]:
    """Return ids for the characters of ``texts`` and for their most frequent words.

    A vocabulary that is trained on them differs from process to process, and so would the digest of the inputs.
    """
    from tokenizers import BertWordPieceTokenizer

    splitter = BertWordPieceTokenizer(lowercase=True)._tokenizer
    pieces = (splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(text)) for text in texts)
    words = Counter(word for each in pieces for word, _ in each)
    characters = sorted(set("".join(words)))
    frequent = sorted(words, key=lambda word: (-words[word], word))
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *characters, *(f"##{each}" for each in characters), *frequent])
    return {token: number for number, token in enumerate(islice(tokens, VOCABULARY))}


def questions(request: InputRequest) -> list[tuple[str, str, str]]:
    """Return pairs of question and passage, each filling the whole sequence with different text, and their names."""
    length = request.options["sequence"]
    path = request.path or PASSAGES
    asked: Sequence[str] = QUESTIONS
    words, name = read_text(path).split(), path.name
    if request.skip:  # for calibration: a text of which no window is measured
        words, name, asked = " ".join(builtin_passages()).split(), "built-in passages", builtin_questions()
    found = []
    for number in range(request.skip, request.skip + request.batch):
        question = asked[number % len(asked)]
        start = (number * 97 + request.seed) % len(words)  # a different start for each item
        passage = words[start:] + words[:start]
        # A short text is repeated: a server pads its batches, so that every sequence costs the full length.
        passage *= 1 + length // max(1, len(passage))
        # A word is at least one token, so the model never sees more of them.
        found.append((question, " ".join(passage[:length]), f"{name} from word {start}: {question}"))
    return found


def request_tokenizer(request: InputRequest) -> Any:
    """The tokenizer for the questions of ``request``."""
    return tokenizer(request.model_path, [read_text(request.path or PASSAGES), *QUESTIONS])


def encode(requested: Sequence[tuple[str, str, str]], encoder: Any, length: int) -> Any:
    """Tokenize questions with their passages, cut off or padded to ``length`` tokens."""
    return encoder(
        [question for question, _, _ in requested],
        [passage for _, passage, _ in requested],
        truncation="only_second",
        max_length=length,
        padding="max_length",
        return_tensors="pt",
    )


def inputs(request: InputRequest) -> Inputs:
    requested = questions(request)
    encoded = encode(requested, request_tokenizer(request), request.options["sequence"])
    return Inputs(args=qa_arguments(encoded), items=tuple(item for _, _, item in requested))


def stages(request: InputRequest) -> Stages:
    requested, encoder, declaration = questions(request), request_tokenizer(request), judge(request.options)

    def tokenize(requested: Sequence[tuple[str, str, str]]) -> ModelInput:
        encoded = encode(requested, encoder, declaration.max_length)
        return ModelInput(qa_arguments(encoded), context=(requested, encoded))

    def decode(made: ModelOutput) -> list[str]:
        """The answer to each question: the text of the best span."""
        requested, encoded = made.context
        logits = [each.float().cpu().numpy() for each in declaration.logits(made.output)]
        answers = []
        for number, (question, passage, item) in enumerate(requested):
            windows = Windows(Question(item, question, passage, ()), {}, (paragraph_offsets(encoded, number),))
            rows = [each[number : number + 1] for each in logits]
            answers.append(best_span(windows, rows, declaration, may_be_empty=False).text)
        return answers

    return Stages(
        source=requested,
        items=tuple(item for _, _, item in requested),
        before=(Stage("tokenize", tokenize),),
        after=(Stage("decode spans", decode),),
    )


def judge(options: Mapping[str, Any]) -> Answers:
    """SQuAD's EM and F1, in windows of ``--sequence`` tokens.

    Neighbouring windows share a third of their tokens, at most the 128 of BERT's ``run_squad.py``. Windows shorter
    than those of the published quality may cut answers off, so it does not apply to them.
    """
    length, size = options["sequence"], options.get("size")
    return Answers(
        tokenizer=lambda path: tokenizer(path, [read_text(PASSAGES)]),
        max_length=length,
        stride=min(MAX_STRIDE, length // 3),
        published=CHECKPOINTS[size].quality if size is not None and length >= PUBLISHED_SEQUENCE else {},
    )


WORKLOAD = Workload(
    name="bert",
    title="BERT question answering (transformers), SQuAD 1.1",
    unit="questions",
    build=build,
    inputs=inputs,
    checkpoint=lambda options: CHECKPOINTS[options["size"]],
    load=load,
    options=(
        Option(
            name="size",
            default="base",
            help="base (12 layers, hidden 768) or large (24, 1024)",
            choices=("base", "large"),
            by_checkpoint=True,
        ),
        Option(
            name="sequence",
            default=384,
            help="tokens of question and passage together, 16 to 512",
            type=int,
            minimum=16,
            maximum=512,
            is_input=True,
        ),
    ),
    judge=judge,
    stages=stages,
    libraries=("transformers.models.bert.modeling_bert",),
    defaults="BERT-base, batch 1, 384 tokens, every sequence full",
)
