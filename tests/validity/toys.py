"""Cheap tasks and models for the tests of judging: pictures of squares, and a tokenizer without a checkpoint."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from modelzoo.records import codec
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.validity import Validity, ValidityRequest
from modelzoo.validity import Answers, Classification, Detection, Predictor, judging, squad
from modelzoo.validity.checks import SIGNIFICANT_BITS
from modelzoo.validity.task import ExhibitSink, Progress, Task, TaskContext

CLASSES = 7


def predictor(model: Any, precision: str = "fp32") -> Predictor:
    """The model in fp32; as "bf16" with its weights rounded to it, which is as fast on every CPU."""
    if precision == "bf16":
        model = copy.deepcopy(model)
        with torch.no_grad():
            for each in model.parameters():
                each.copy_(each.bfloat16())
    return Predictor(model, precision, model)


def autocast(model: Any, via: Callable[..., Any] | None = None) -> Predictor:
    """The model whose kernels compute in bf16, which most CPUs emulate; ``via`` replaces the call."""

    def run(*args: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return (via or model)(*args)

    return Predictor(run, "bf16", model)


class Recorder:
    """Collects exhibits, after a round trip through JSON as between worker and parent."""

    def __init__(self) -> None:
        self.exhibits: list[Exhibit] = []

    def __call__(self, exhibit: Exhibit) -> None:
        self.exhibits.append(codec.decode(Exhibit, json.loads(codec.encode_json(exhibit))))

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """All rows of a CSV file."""
        return [row for each in self.exhibits if each.name == name and each.csv for row in each.csv.rows]


def bind(workload: str, task: Any, tested: Predictor, request: ValidityRequest) -> Task:
    """The task with the items of its data set."""
    bits = SIGNIFICANT_BITS.get(tested.precision)
    return judging.bind(task, TaskContext(workload, request, "tested", bits))


def judge(
    workload: str,
    task: Any,
    reference: Predictor,
    tested: Predictor,
    request: ValidityRequest,
    progress: Progress = lambda judged: None,
    exhibit: ExhibitSink = lambda exhibit: None,
) -> Validity:
    """Run both models over the data set and judge ``tested``."""
    bound = bind(workload, task, tested, request)
    found = judging.compare(bound, reference, tested, progress=progress, exhibit=exhibit)
    return judging.conclude(bound, found, exhibit)


def noise(size: tuple[int, int], random: np.random.Generator | None = None) -> Any:
    """A picture of noise, which no format compresses."""
    random = random or np.random.default_rng(0)
    return Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), dtype="uint8"))


def cut(path: Path) -> None:
    """Half of a picture's file."""
    noise((90, 90)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def classification(folder: Path, count: int) -> tuple[Classification, Predictor, Predictor, ValidityRequest]:
    """Pictures of noise in a directory per class; two linear models that differ a little."""
    random = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"c{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        noise((16, 16), random).save(place / f"{number:03}.png")
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, 3 * 16 * 16, generator=generator) / 10
    other = weight + torch.randn(weight.shape, generator=generator) / 200

    def preprocess(picture: Any) -> Any:
        return torch.from_numpy(np.array(picture.resize((16, 16)))).permute(2, 0, 1).float() / 255

    task = Classification(preprocess, lambda: [f"c{i}" for i in range(CLASSES)])
    reference = Predictor(lambda x: x.flatten(1) @ weight.T)
    tested = Predictor(lambda x: x.flatten(1) @ other.T, "bf16")
    return task, reference, tested, ValidityRequest(data=str(folder), batch=2)


def network() -> Any:
    """A module for the pictures of ``classification``, with weights that are always the same."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, CLASSES))


def squares(output: Any, sizes: Any) -> Any:
    """Detections of the toy detector: two squares per picture with masks, shifted as the model's output says."""
    found = []
    for shift, (height, width) in zip(output, sizes):
        boxes, masks = [], torch.zeros(2, 1, height, width)
        for row, start in enumerate((1 / 8, 5 / 8)):
            left, top, side = width * start + float(shift), height * start, min(height, width) / 4
            boxes.append([left, top, left + side, top + side])
            masks[row, 0, round(top) : round(top + side), max(0, round(left)) : round(left + side)] = 0.9
        scores = torch.tensor([0.9 - float(shift) / 100, 0.6])
        found.append({"boxes": torch.tensor(boxes), "scores": scores, "labels": torch.tensor([1, 2]), "masks": masks})
    return found


def annotation(number: int, image: int, category: int, x: float, y: float, width: float, height: float) -> Any:
    """An object as COCO's files have it, with its box for a mask."""
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": [x, y, width, height],
        "area": width * height,
        "iscrowd": 0,
        "segmentation": [[x, y, x + width, y, x + width, y + height, x, y + height]],
    }


def write_annotations(folder: Path, sizes: list[tuple[int, int]]) -> None:
    """Black pictures of these sizes, annotated with what the toy detector finds without a shift."""
    (folder / "val").mkdir(parents=True)
    images, annotations = [], []
    for number, size in enumerate(sizes, start=1):
        Image.new("RGB", size, (5 * number, 0, 0)).save(folder / "val" / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": size[0], "height": size[1]})
        for category, start in ((1, 1 / 8), (2, 5 / 8)):
            x, y, side = size[0] * start, size[1] * start, min(size) / 4
            annotations.append(annotation(len(annotations) + 1, number, category, x, y, side, side))
    categories = [{"id": 1, "name": "square"}, {"id": 2, "name": "quadrangle"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances_val.json").write_text(json.dumps(content))


def detection(folder: Path, count: int) -> tuple[Detection, Predictor, Predictor, ValidityRequest]:
    """Annotated squares; the models shift them differently from picture to picture."""
    write_annotations(folder, [(200 + 8 * number, 160) for number in range(count)])

    def preprocess(picture: Any) -> Any:
        return torch.tensor([picture.size[0] / 8 % 5])

    task = Detection(preprocess, lambda: {1: (1, "square"), 2: (2, "quadrangle")}, detections=squares, masks=True)
    reference = Predictor(lambda pictures: [x / 4 for x in pictures])
    tested = Predictor(lambda pictures: [x / 2 for x in pictures], "bf16")
    return task, reference, tested, ValidityRequest(data=str(folder), batch=2, pictures=1)


def tokenizer() -> Any:
    """A fast tokenizer trained on the built-in questions."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    trained = BertWordPieceTokenizer(lowercase=True)
    texts = [text for q in squad.read(squad.BUILTIN) for text in (q.context, q.question)]
    trained.train_from_iterator(texts, vocab_size=2000, min_frequency=1, show_progress=False)
    return BertTokenizerFast(tokenizer_object=trained._tokenizer, do_lower_case=True)


def answers() -> tuple[Answers, Predictor, Predictor, ValidityRequest]:
    """The built-in questions in short windows; the models' logits are functions of the token ids."""
    shared = tokenizer()

    def model(factor: float) -> Any:
        def call(ids: Any, mask: Any, types: Any) -> Any:
            start = torch.sin(ids.double() * 1.3) * 4
            return start, torch.cos(ids.double() * factor) * 4

        return call

    task = Answers(lambda path: shared, max_length=96, stride=32)
    return task, Predictor(model(0.7)), Predictor(model(0.7005), "bf16"), ValidityRequest(batch=4)


def declared(kind: str, folder: Path, count: int) -> tuple[Task, Predictor, Predictor, ValidityRequest]:
    """The toy of a kind of task with ``count`` items (all questions for ``answers``)."""
    if kind == "answers":
        return answers()
    return classification(folder, count) if kind == "classification" else detection(folder, count)


def failed(judged: Validity) -> list[str]:
    """The names of the checks that failed."""
    return [each.name for each in judged.checks if not each.passed and not each.undecided]
