"""What a judgement shows, written: CSV files, plots, pictures, their names and thumbnails."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageColor
from pycocotools import mask as rle

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot, PictureSource
from modelzoo.records.partial import LayerError, MatchedPair, Matches, UnmatchedObject
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS
from modelzoo.views import exhibits as drawing
from modelzoo.views.exhibits import ExhibitWriter

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
NAMES = {1: "person", 2: "dog", 9: "car"}
Row = tuple[tuple[float, float, float, float], float, int]


def detected(*rows: Row) -> DrawnDetections:
    """Detections from (box, score, label)."""
    boxes, scores, labels = zip(*rows) if rows else ((), (), ())
    return DrawnDetections(boxes, scores, labels, tuple(NAMES[label] for label in labels))


def picture(tested: DrawnDetections, **changes: Any) -> DetectionPicture:
    """What both models detected: the reference nothing, unless ``changes`` say so."""
    found = DetectionPicture(PictureSource(), (200, 150), DrawnDetections(), tested, Matches(), 0.5, "fp32", "bf16")
    return replace(found, **changes)


ONE = detected(((30.0, 30.0, 90.0, 90.0), 0.9, 1))
NEW = Matches(new=(UnmatchedObject(0, 1, 0.9),))


def written(directory: Path, *exhibits: Exhibit) -> ExhibitWriter:
    """A writer that has written these."""
    writer = ExhibitWriter(directory, "toy")
    for each in exhibits:
        writer.write(each)
    return writer


@pytest.fixture
def noise(tmp_path: Path) -> DetectionPicture:
    """One object that only the tested model found, in a picture of noise on disk."""
    Image.effect_noise((200, 150), 80).convert("RGB").save(tmp_path / "noise.png")
    return picture(ONE, matches=NEW, source=PictureSource(str(tmp_path / "noise.png")))


def test_rows_of_the_same_file_are_appended(tmp_path: Path) -> None:
    """The header is written once, an older file is replaced, and the file is counted once; formulas are text."""
    old = tmp_path / "toy_top5.csv"
    old.write_text("old\n")
    rows = [CsvRows(("a", "b"), ((str(number), '=x, "y"'),)) for number in range(3)]
    writer = written(tmp_path, *(Exhibit("top5.csv", csv=each) for each in rows))
    with old.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["a", "b"], *([str(n), '\'=x, "y"'] for n in range(3))]
    assert writer.files == [old]


def test_the_name_of_a_library_s_model_is_one_short_part_of_a_file_s_name(tmp_path: Path) -> None:
    """It may have colons, slashes, and as many arguments as one likes."""
    name = f"hf:./config={'a' * 300}"
    writer = ExhibitWriter(tmp_path, name)
    writer.write(Exhibit("top5.csv", csv=CsvRows(("a",), (("1",),))))
    assert (writer.problem, [each.parent for each in writer.files]) == ("", [tmp_path])


def test_the_suffix_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    """No worker writes a program."""
    plot = LayerErrorPlot((LAYER,), "bf16", 4.0)
    kinds = ({"csv": CsvRows((), ())}, {"layer_errors": plot})
    writer = written(tmp_path, *(Exhibit(name, **each) for name in ("a.py", "b") for each in kinds))
    assert [path.name for path in writer.files] == ["toy_a.csv", "toy_a.png", "toy_b.csv", "toy_b.png"]


def test_pictures_are_read_again_and_drawn(tmp_path: Path, noise: DetectionPicture) -> None:
    """One with the detections and a comparison per input; special characters leave the name."""
    writer = written(tmp_path / "out", Exhibit("a folder/../b.png", detections=noise))
    single, both = writer.files
    assert single == tmp_path / "out" / "toy_pictures" / "a_folder_.._b.jpg"
    assert both.name == "a_folder_.._b_compared.jpg"
    with Image.open(single) as first, Image.open(both) as second:
        assert second.size[0] == 2 * first.size[0]


def test_inputs_of_the_same_name_do_not_replace_each_other(tmp_path: Path, noise: DetectionPicture) -> None:
    """Nor do those of one name with two suffixes; of the built-in photograph, the record says where to cut."""
    crop = replace(noise, source=PictureSource(crop=(0, 0, 200, 150), mirrored=True))
    writer = written(tmp_path, Exhibit("a.png", detections=noise), Exhibit("a.jpg", detections=crop))
    assert [path.name for path in writer.files] == ["a.jpg", "a_compared.jpg", "a_2.jpg", "a_2_compared.jpg"]


def test_thumbnails_are_few_and_small(tmp_path: Path, noise: DetectionPicture) -> None:
    """Those of the first comparisons, also of pictures that compress badly."""
    exhibits = (Exhibit(f"{number}.png", detections=noise) for number in range(THUMBNAILS + 2))
    thumbnails = written(tmp_path, *exhibits).thumbnails
    assert [each.name for each in thumbnails] == [f"{number}_compared.jpg" for number in range(THUMBNAILS)]
    assert all(0 < len(each.jpeg) <= THUMBNAIL_BYTES for each in thumbnails)


def test_a_place_that_cannot_be_written_to_costs_no_judgement(tmp_path: Path) -> None:
    """What is missing is said in one line; the judging goes on."""
    place = tmp_path / "file"
    place.write_text("")
    writer = written(place, Exhibit("top5.csv", csv=CsvRows(("a",), ())))
    assert writer.problem == f"cannot write {place}: File exists; name another directory with --artifacts DIR"
    assert writer.files == []


def test_an_exhibit_that_cannot_be_drawn_is_an_error_of_the_worker(tmp_path: Path, noise: DetectionPicture) -> None:
    """A mask that is none, a plot without layers: one line, not a traceback."""
    masked = replace(noise, tested=replace(ONE, masks=("o" * 10,), mask_size=(150, 200)))
    for exhibit, message in (
        (Exhibit("a.png", detections=masked), r"^toy_a.png cannot .* describes it: Invalid RLE mask representation$"),
        (Exhibit("layers.png", layer_errors=LayerErrorPlot((), "bf16", 4.0)), "^toy_layers.png cannot be drawn as the"),
    ):
        with pytest.raises(WorkerError, match=message):
            written(tmp_path, exhibit)


def fraction_of(image: Image.Image, colour: str) -> float:
    """Fraction of pixels within 40 of ``colour`` in every channel."""
    pixels = np.asarray(image.convert("RGB"), dtype="int64")
    return float((np.abs(pixels - np.array(ImageColor.getrgb(colour))).max(axis=2) < 40).mean())


def test_a_comparison_marks_lost_new_and_moved() -> None:
    """Lost only on the left, new only on the right, moved on both."""
    common, moved = (10, 60, 90, 140), (120, 60, 200, 140)
    reference = detected((common, 0.9, 1), (moved, 0.9, 1), ((220, 60, 300, 140), 0.9, 1))
    tested = detected((common, 0.9, 1), ((132, 60, 212, 140), 0.9, 1), ((300, 180, 380, 260), 0.9, 2))
    pairs = tuple(MatchedPair(row, row, 1, 0.9, 0.9, iou, (0, 0, 0, 0)) for row, iou in enumerate((1.0, 0.74)))
    matches = Matches(pairs, (UnmatchedObject(2, 1, 0.9),), (UnmatchedObject(2, 2, 0.9),))
    sheet = drawing.draw_comparison(
        Image.new("RGB", (400, 300), "black"), picture(tested, reference=reference, matches=matches)
    )
    middle = sheet.size[0] // 2
    sides = sheet.crop((0, 40, middle, 700)), sheet.crop((middle, 40, sheet.size[0], 700))
    for colour, expected in (
        (drawing.LOST, [True, False]),
        (drawing.NEW, [False, True]),
        (drawing.MOVED, [True, True]),
        (drawing.COMMON, [True, True]),
    ):
        assert [fraction_of(side, colour) > 0 for side in sides] == expected


def test_detections_above_the_threshold_are_drawn_with_their_masks() -> None:
    """One box above the threshold, one below it; small pictures are enlarged; the masked half is tinted."""
    mask = np.zeros((100, 200), dtype="uint8", order="F")
    mask[:, :50] = 1
    counts = (rle.encode(mask)["counts"].decode("ascii"),) * 2
    tested = detected(((20, 20, 80, 80), 0.9, 1), ((100, 20, 180, 80), 0.2, 2))
    white = Image.new("RGB", (200, 100), "white")
    plain, masked = (
        drawing.draw_detections(white, picture(each))
        for each in (tested, replace(tested, masks=counts, mask_size=(100, 200)))
    )
    assert plain.size == (drawing.SHORTEST, drawing.SHORTEST // 2 + drawing.BARS // 2)
    assert (fraction_of(plain, drawing.PALETTE[1]) > 0.005, fraction_of(plain, drawing.PALETTE[2])) == (True, False)
    left, right = (30, 450), (900, 450)
    assert masked.getpixel(right) == plain.getpixel(right) == plain.getpixel(left) == (255, 255, 255)
    assert masked.getpixel(left) != (255, 255, 255)


@pytest.mark.parametrize(
    "tested", [detected(), detected(((5, 5, 5, 5), 0.9, 1), ((-50, -20, 900, 80), 0.9, 9), ((0, 0, 0, 0), 0.9, 2))]
)
def test_no_detections_and_boxes_at_the_edge_are_drawn(tested: DrawnDetections) -> None:
    """No detections, empty boxes, and one that leaves the picture raise nothing."""
    black = Image.new("RGB", (300, 30), "black")
    shown = picture(tested, matches=Matches(new=tuple(UnmatchedObject(n, 1, 0.9) for n in range(len(tested.boxes)))))
    assert drawing.draw_detections(black, shown).size == (960, 96 + drawing.BARS // 2)
    assert drawing.draw_comparison(black, shown).size == (2 * 960, 96 + drawing.BARS)


def test_layers_without_error_or_value_have_no_point(tmp_path: Path) -> None:
    """A logarithmic axis has no place for 0 and NaN; the first suspect is marked in red. The plot is a PNG."""
    layers = (
        LAYER,
        replace(LAYER, name="equal", error=0.0),
        replace(LAYER, name="nan", error=None, finite=False),
        replace(LAYER, name="b", error=0.5),
    )
    red = []
    for suspect in (None, 3):
        writer = written(tmp_path, Exhibit("layers.png", layer_errors=LayerErrorPlot(layers, "bf16", 3.0, suspect)))
        assert writer.files == [tmp_path / "toy_layers.png"]
        with Image.open(writer.files[0]) as plot:
            assert plot.format == "PNG" and plot.size[0] >= 1000
            pixels = np.asarray(plot.convert("RGB"), dtype="int64")
        red.append(int(((pixels[..., 0] > 180) & (pixels[..., 1] < 80)).sum()))
    assert red[0] == 0 < red[1]
