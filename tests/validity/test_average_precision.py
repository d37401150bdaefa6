"""AP as pycocotools computes it, on the pictures as they are and with other weights, and its bounds."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as rle
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from validity.toys import annotation

from modelzoo.records.validity import MetricChange
from modelzoo.validity import average_precision as ap
from modelzoo.validity import coco
from modelzoo.validity.bounds import typical_size
from modelzoo.validity.detection_figures import AveragePrecisions

SIZE = 200


def annotated(pictures: int, seed: int = 0) -> dict[str, Any]:
    """Pictures with up to four boxes in three categories, some of them crowds; every fourth one is empty."""
    random = np.random.default_rng(seed)
    annotations = []
    for image in range(1, pictures + 1):
        for _ in range(0 if image % 4 == 0 else random.integers(1, 5)):
            x, y, width, height = (float(v) for v in random.integers(5, 95, 4))
            category = int(random.choice([1, 3, 7]))
            annotations.append(annotation(len(annotations) + 1, image, category, x, y, width, height))
            if random.random() < 0.15:
                outline = {"size": [SIZE, SIZE], "counts": [0, SIZE * SIZE]}
                annotations[-1].update(iscrowd=1, segmentation=outline)
    images = [{"id": i, "file_name": f"{i}.jpg", "width": SIZE, "height": SIZE} for i in range(1, pictures + 1)]
    return {"images": images, "annotations": annotations, "categories": [{"id": i, "name": str(i)} for i in (1, 3, 7)]}


def noisy(content: Mapping[str, Any], seed: int, noise: float = 4.0) -> list[dict[str, Any]]:
    """Detections near three in four of the objects, with errors of the category, and as many false ones."""
    random = np.random.default_rng(seed)
    found = []
    for a in content["annotations"]:
        for shift in (0.0, 100.0):
            if random.random() < 0.75:
                x, y, width, height = (v + float(random.normal(0, noise)) for v in a["bbox"])
                category = a["category_id"] if random.random() < 0.9 else 3
                score = round(float(random.uniform()), 4)
                shared = {"image_id": a["image_id"], "category_id": category, "score": score}
                found.append({**shared, "bbox": [x + shift, y, max(width, 1.0), max(height, 1.0)]})
    return found


def cocoeval(content: Mapping[str, Any], results: Sequence[Mapping[str, Any]], kind: str, ids: Sequence[int]) -> Any:
    """COCOeval's six figures, by pycocotools called directly."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {"info": {}, **copy.deepcopy(dict(content))}
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(copy.deepcopy([dict(each) for each in results])), kind)
        evaluation.params.imgIds = list(ids)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[:6]


def annotations_of(content: Mapping[str, Any]) -> coco.Annotations:
    return coco.Annotations(Path("instances.json"), content, {})


def test_figures_are_pycocotools_own() -> None:
    """Noisy detections on four of six pictures: all six figures, for boxes and masks, are COCOeval's."""
    content, chosen = annotated(8), [1, 2, 4, 6]
    boxes = [each for each in noisy(content, 1) if each["image_id"] in chosen]
    masks = []
    for each in boxes:
        area = np.zeros((SIZE, SIZE), dtype="uint8", order="F")
        x, y, width, height = (round(v) for v in each["bbox"])
        area[max(y, 0) : y + height, max(x, 0) : x + width] = 1
        shared = {name: each[name] for name in ("image_id", "category_id", "score")}
        masks.append({**shared, "segmentation": rle.encode(area)})
    for kind, results in (("bbox", boxes), ("segm", masks)):
        ours = ap.evaluate(annotations_of(content), chosen, results, kind)
        assert list(ours.figures.values()) == pytest.approx(list(cocoeval(content, results, kind, chosen)))
        assert 0 < ours.figures["ap"] < 1
        assert ours.pictures == 4


def repeated(
    content: Mapping[str, Any], results: Sequence[Mapping[str, Any]], counts: Sequence[int]
) -> tuple[Any, Any]:
    """The data set in which picture i occurs ``counts[i]`` times, each time as a picture of its own."""
    images, annotations, found = [], [], []
    for image, count in zip(content["images"], counts):
        for _ in range(count):
            number = len(images) + 1
            images.append({**image, "id": number})
            annotations += [{**a, "image_id": number} for a in content["annotations"] if a["image_id"] == image["id"]]
            found += [{**each, "image_id": number} for each in results if each["image_id"] == image["id"]]
    for number, each in enumerate(annotations, start=1):
        each["id"] = number
    return {**content, "images": images, "annotations": annotations}, found


@pytest.mark.parametrize("seed", range(2))
def test_ap_of_drawn_pictures_is_cocoevals_on_a_set_that_repeats_them(seed: int) -> None:
    """Pictures drawn several times or never, crowds, false detections and pictures without objects."""
    content = annotated(14, seed)
    results = noisy(content, seed)
    evaluation = ap.evaluate(annotations_of(content), range(1, 15), results, "bbox")
    weights = np.random.default_rng(seed).multinomial(14, np.full(14, 1 / 14), 4)
    weights = np.vstack([np.ones(14), weights])
    by_category = np.array([ap.category_ap(each, weights) for each in evaluation.categories.values()])
    for counts, values in zip(weights, by_category.T):
        bigger, found = repeated(content, results, [int(count) for count in counts])
        expected = cocoeval(bigger, found, "bbox", range(1, len(bigger["images"]) + 1))[0]
        assert np.nanmean(values) == pytest.approx(expected, abs=1e-12)


def drawn_world(random: Any, pictures: int, lost: float) -> tuple[ap.Evaluation, ap.Evaluation]:
    """Two models on random pictures with ten categories: the second loses a fraction of what the first finds."""
    sides: tuple[dict[int, ap.CategoryMatches], dict[int, ap.CategoryMatches]] = ({}, {})
    for category in range(10):
        objects = random.poisson(0.4, pictures)
        picture = np.repeat(np.arange(pictures), objects)
        found, score = random.random(len(picture)) < 0.8, random.beta(4, 2, len(picture))
        wrong, wrong_score = random.integers(0, pictures, pictures // 3), random.beta(2, 4, pictures // 3)
        kept = found & (random.random(len(picture)) >= lost)
        for side, hits in zip(sides, (found, kept)):
            places, scores = np.concatenate([picture[hits], wrong]), np.concatenate([score[hits], wrong_score])
            order = np.argsort(-scores, kind="stable")
            hit = (np.arange(len(places)) < hits.sum())[order][None]
            side[category] = ap.CategoryMatches(places[order], hit, np.zeros_like(hit), objects.astype(float))
    return tuple(ap.Evaluation({"ap": mean_ap(side)}, pictures, side) for side in sides)  # type: ignore[return-value]


def mean_ap(categories: Mapping[int, ap.CategoryMatches]) -> float:
    """AP of all pictures, each once."""
    values = [ap.category_ap(each, np.ones((1, len(each.objects)))) for each in categories.values()]
    return float(np.nanmean(values))


def judged(reference: ap.Evaluation, tested: ap.Evaluation) -> tuple[MetricChange, AveragePrecisions]:
    """How AP changed."""
    found = AveragePrecisions("box", reference, tested, *ap.resample(reference, tested))
    return found.change, found


def test_the_interval_contains_the_true_change_of_ap(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 simulated sets of 80 pictures, in whose population the second model's AP is lower by a known value."""
    monkeypatch.setattr(ap, "DRAWS", 200)
    random = np.random.default_rng(4)
    large = drawn_world(random, 4000, 0.06)
    true = large[1].figures["ap"] - large[0].figures["ap"]
    assert true < -0.03
    covered, kept = [], []
    for _ in range(50):
        pair = drawn_world(random, 80, 0.06)
        change, found = judged(*pair)
        covered.append(change.low <= true <= change.high)
        kept.append(found.ratio.lower(0.95) <= 1 + true / large[0].figures["ap"])
    assert np.mean(covered) >= 0.857  # three standard errors of the simulation below 0.95
    assert np.mean(kept) >= 0.857


def test_an_object_is_a_share_of_ap_by_its_category() -> None:
    """Two categories with one object in one picture and three in the other: 1/2 and 1/6 of AP each."""
    nothing = np.zeros((1, 0), dtype=bool)
    categories = {
        number: ap.CategoryMatches(np.zeros(0, int), nothing, nothing, np.array(objects, dtype=float))
        for number, objects in enumerate(([1, 0, 0], [0, 2, 1]))
    }
    assert ap.picture_sizes(ap.Evaluation({}, 3, categories)) == pytest.approx([3 / 2, 1, 1 / 2])


def test_models_that_find_the_same_have_the_bound_of_the_rule_of_three() -> None:
    """As if the objects of 3 pictures could be lost, of pictures with as much of AP as an object's picture has."""
    reference, _ = drawn_world(np.random.default_rng(0), 300, 0.0)
    change, _ = judged(reference, reference)
    size = typical_size(ap.picture_sizes(reference))
    assert change.change == 0
    assert change.possible_loss == pytest.approx(3 * size / 300, rel=0.1)
    assert change.detectable_loss == pytest.approx(3 * size / 300)


def test_large_sets_get_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the interval of 5,000 pictures takes seconds."""
    pair = drawn_world(np.random.default_rng(0), 30, 0.05)
    assert len(ap.resample(*pair)[0].added) == ap.DRAWS
    monkeypatch.setattr(ap, "WORK", 1)
    assert len(ap.resample(*pair)[0].added) == ap.FEWEST_DRAWS


def test_a_model_without_detections_loses_everything() -> None:
    """Its AP is 0, also in every draw."""
    assert ap.evaluate(annotations_of(annotated(6)), [1], [], "bbox").figures["ap"] == 0
    reference, _ = drawn_world(np.random.default_rng(0), 40, 0.0)
    nothing = ap.Evaluation(dict.fromkeys(ap.AP_NAMES, 0.0), 40, {})
    change, _ = judged(reference, nothing)
    assert change.change == -reference.figures["ap"]
    assert change.low < -reference.figures["ap"]
    assert change.high < 0
