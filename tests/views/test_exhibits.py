"""What a judgement shows, written: CSV files, plots, pictures, their names and thumbnails."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot, PictureSource
from modelzoo.records.partial import LayerError, MatchedPair, Matches, UnmatchedObject
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS
from modelzoo.views import exhibits as drawing
from modelzoo.views.exhibits import ExhibitWriter, write_plot

LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
ONE = DrawnDetections(((30.0, 30.0, 90.0, 90.0),), (0.9,), (1,), ("person",))


def detections(source: PictureSource) -> DetectionPicture:
    """One object that only the tested model found."""
    matches = Matches(new=(UnmatchedObject(0, 1, 0.9),))
    return DetectionPicture(source, (200, 150), DrawnDetections(), ONE, matches, 0.5, "fp32", "bf16")


@pytest.fixture
def source(tmp_path: Path) -> PictureSource:
    """A picture of noise on disk."""
    Image.effect_noise((200, 150), 80).convert("RGB").save(tmp_path / "noise.png")
    return PictureSource(str(tmp_path / "noise.png"))


def test_rows_of_the_same_file_are_appended(tmp_path: Path) -> None:
    """The header is written once, an older file is replaced, and the file is counted once."""
    old = tmp_path / "toy_top5.csv"
    old.write_text("old\n")
    writer = ExhibitWriter(tmp_path, "toy")
    for number in range(3):
        writer.write(Exhibit("top5.csv", csv=CsvRows(("a", "b"), ((str(number), 'x, "y"'),))))
    with old.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["a", "b"], *([str(n), 'x, "y"'] for n in range(3))]
    assert writer.files == [old]


def test_the_suffix_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    """No worker writes a program."""
    writer = ExhibitWriter(tmp_path, "toy")
    for name in ("a.py", "b"):
        writer.write(Exhibit(name, csv=CsvRows((), ())))
        writer.write(Exhibit(name, layer_errors=LayerErrorPlot((LAYER,), "bf16", 4.0)))
    assert [path.name for path in writer.files] == ["toy_a.csv", "toy_a.png", "toy_b.csv", "toy_b.png"]


def test_spreadsheets_evaluate_no_cell_of_an_exhibit(tmp_path: Path) -> None:
    """A question or the name of a picture may begin like a formula; numbers stay numbers, and a row is one line."""
    writer = ExhibitWriter(tmp_path, "toy")
    writer.write(Exhibit("top5.csv", csv=CsvRows(("a", "b"), (("=1+1", "-0.5"), ("@x\n=2", "\x1b[31m")))))
    assert writer.files[0].read_text(encoding="utf-8") == "a,b\n'=1+1,-0.5\n'@x\\n=2,\\x1b[31m\n"


def test_pictures_are_read_again_and_drawn(tmp_path: Path, source: PictureSource) -> None:
    """One with the detections and a comparison per input; special characters leave the name."""
    writer = ExhibitWriter(tmp_path / "out", "toy")
    writer.write(Exhibit("a folder/../b.png", detections=detections(source)))
    single, both = writer.files
    assert single == tmp_path / "out" / "toy_pictures" / "a_folder_.._b.jpg"
    assert both.name == "a_folder_.._b_compared.jpg"
    with Image.open(single) as first, Image.open(both) as second:
        assert second.size[0] == 2 * first.size[0]


def test_a_crop_of_the_builtin_photograph_is_reproduced(tmp_path: Path) -> None:
    """The record says where to cut; no pixels are sent."""
    writer = ExhibitWriter(tmp_path, "toy")
    content = detections(PictureSource(crop=(0, 0, 200, 150), mirrored=True))
    writer.write(Exhibit("crop_01", detections=content))
    assert [path.name for path in writer.files] == ["crop_01.jpg", "crop_01_compared.jpg"]


def test_inputs_of_the_same_name_do_not_replace_each_other(tmp_path: Path, source: PictureSource) -> None:
    """``a.png`` and ``a.jpg`` give two pictures each."""
    writer = ExhibitWriter(tmp_path, "toy")
    for name in ("a.png", "a.jpg"):
        writer.write(Exhibit(name, detections=detections(source)))
    assert [path.name for path in writer.files] == ["a.jpg", "a_compared.jpg", "a_2.jpg", "a_2_compared.jpg"]


def test_thumbnails_are_few_and_small(tmp_path: Path, source: PictureSource) -> None:
    """Those of the first comparisons, also of pictures that compress badly."""
    writer = ExhibitWriter(tmp_path, "toy")
    for number in range(THUMBNAILS + 2):
        writer.write(Exhibit(f"{number}.png", detections=detections(source)))
    thumbnails = writer.thumbnails()
    assert [each.name for each in thumbnails] == [f"{number}_compared.jpg" for number in range(THUMBNAILS)]
    assert all(0 < len(each.jpeg) <= THUMBNAIL_BYTES for each in thumbnails)


def test_the_plot_of_layers_is_written(tmp_path: Path) -> None:
    """A PNG, also with a layer without error and one without a value."""
    layers = (LAYER, replace(LAYER, name="equal", error=0.0), replace(LAYER, name="nan", error=None, finite=False))
    writer = ExhibitWriter(tmp_path, "toy")
    writer.write(Exhibit("layers.png", layer_errors=LayerErrorPlot(layers, "bf16", 3.0, 2)))
    assert writer.files == [tmp_path / "toy_layers.png"]
    with Image.open(writer.files[0]) as picture:
        assert picture.size[0] >= 1000


def test_a_place_that_cannot_be_written_to_costs_no_judgement(tmp_path: Path) -> None:
    """What is missing is said in one line; the judging goes on."""
    (tmp_path / "file").write_text("")
    writer = ExhibitWriter(tmp_path / "file", "toy")
    writer.write(Exhibit("top5.csv", csv=CsvRows(("a",), ())))
    place = tmp_path / "file"
    assert writer.problem == f"cannot write {place}: File exists; name another directory with --artifacts DIR"
    assert writer.files == []


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_an_exhibit_that_cannot_be_drawn_is_an_error_of_the_worker(tmp_path: Path, source: PictureSource) -> None:
    """A mask that is none, a plot without layers: one line, not a traceback."""
    writer = ExhibitWriter(tmp_path / "out", "toy")
    masked = replace(ONE, masks=("o" * 10,), mask_size=(150, 200))
    exhibit = Exhibit("a.png", detections=replace(detections(source), tested=masked))
    with pytest.raises(WorkerError) as error:
        writer.write(exhibit)
    assert str(error.value) == "toy_a.png cannot be drawn as the worker describes it: Invalid RLE mask representation"
    with pytest.raises(WorkerError, match=r"^toy_layers.png cannot be drawn as the worker describes it: "):
        writer.write(Exhibit("layers.png", layer_errors=LayerErrorPlot((), "bf16", 4.0)))


NAMES = {1: "person", 2: "dog", 9: "car"}
NOTHING = Matches()
Row = tuple[tuple[float, float, float, float], float, int]


def detected(*rows: Row) -> DrawnDetections:
    """Detections from (box, score, label)."""
    return DrawnDetections(
        boxes=tuple(box for box, _, _ in rows),
        scores=tuple(score for _, score, _ in rows),
        labels=tuple(label for _, _, label in rows),
        names=tuple(NAMES[label] for _, _, label in rows),
    )


def picture(reference: DrawnDetections, tested: DrawnDetections, matches: Matches = NOTHING) -> DetectionPicture:
    return DetectionPicture(PictureSource(), (100, 100), reference, tested, matches, 0.5, "fp32", "bf16")


def pair(row: int, iou: float) -> MatchedPair:
    """The detections of rank ``row`` in both models, with boxes of this overlap."""
    return MatchedPair(row, row, 1, 0.9, 0.9, iou, (0, 0, 0, 0))


def fraction_of(image: Image.Image, colour: str) -> float:
    """Fraction of pixels within 40 of ``colour`` in every channel."""
    pixels = np.asarray(image, dtype="int64")
    return float((np.abs(pixels - np.array(ImageColor.getrgb(colour))).max(axis=2) < 40).mean())


def test_boxes_and_labels_are_drawn_above_the_threshold() -> None:
    """One box above the threshold, one below it; small pictures are enlarged."""
    black = Image.new("RGB", (200, 100), "black")
    tested = detected(((20, 20, 80, 80), 0.9, 1), ((100, 20, 180, 80), 0.2, 2))
    drawn = drawing.draw_detections(black, picture(detected(), tested))
    assert drawn.size == (drawing.SHORTEST, drawing.SHORTEST // 2 + drawing.BARS // 2)
    assert fraction_of(drawn, drawing.PALETTE[1]) > 0.005
    assert fraction_of(drawn, drawing.PALETTE[2]) == 0


# pycocotools triggers the warning in numpy 2.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_masks_lie_on_the_object() -> None:
    """The masked half is tinted, the other is not."""
    from pycocotools import mask as rle

    white = Image.new("RGB", (100, 100), "white")
    mask = np.zeros((100, 100), dtype="uint8", order="F")
    mask[:, :50] = 1
    counts = rle.encode(mask)["counts"].decode("ascii")
    tested = replace(detected(((0, 0, 50, 100), 0.9, 1)), masks=(counts,), mask_size=(100, 100))
    drawn = np.asarray(drawing.draw_detections(white, picture(detected(), tested)))
    tinted, plain = drawn[700, 200], drawn[700, 800]
    assert tuple(plain) == (255, 255, 255)
    assert tuple(tinted) != (255, 255, 255)


def test_a_comparison_marks_lost_new_and_moved() -> None:
    """Lost only on the left, new only on the right, moved on both."""
    black = Image.new("RGB", (400, 300), "black")
    common, moved = (10, 60, 90, 140), (120, 60, 200, 140)
    reference = detected((common, 0.9, 1), (moved, 0.9, 1), ((220, 60, 300, 140), 0.9, 1))
    tested = detected((common, 0.9, 1), ((132, 60, 212, 140), 0.9, 1), ((300, 180, 380, 260), 0.9, 2))
    lost, new = UnmatchedObject(2, 1, 0.9), UnmatchedObject(2, 2, 0.9)
    matches = Matches((pair(0, 1.0), pair(1, 0.74)), (lost,), (new,))
    sheet = drawing.draw_comparison(black, picture(reference, tested, matches))
    middle = sheet.size[0] // 2
    left, right = sheet.crop((0, 40, middle, 700)), sheet.crop((middle, 40, sheet.size[0], 700))
    for colour, on_left, on_right in (
        (drawing.LOST, True, False),
        (drawing.NEW, False, True),
        (drawing.MOVED, True, True),
        (drawing.COMMON, True, True),
    ):
        assert (fraction_of(left, colour) > 0) is on_left
        assert (fraction_of(right, colour) > 0) is on_right


@pytest.mark.parametrize(
    "tested", [detected(), detected(((5, 5, 5, 5), 0.9, 1), ((-50, -20, 900, 80), 0.9, 9), ((0, 0, 0, 0), 0.9, 2))]
)
def test_no_detections_and_boxes_at_the_edge_are_drawn(tested: DrawnDetections) -> None:
    """No detections, empty boxes, and one that leaves the picture raise nothing."""
    black = Image.new("RGB", (300, 30), "black")
    matches = Matches(new=tuple(UnmatchedObject(row, 1, 0.9) for row in range(len(tested.boxes))))
    assert drawing.draw_detections(black, picture(detected(), tested)).size == (960, 96 + drawing.BARS // 2)
    assert drawing.draw_comparison(black, picture(detected(), tested, matches)).size == (2 * 960, 96 + drawing.BARS)


def layer(name: str, error: float | None) -> LayerError:
    return LayerError(name, "Conv2d", error, 0.0, 0.001, 0.004, 0.0, error is not None)


def test_layers_without_error_or_value_have_no_point(tmp_path: Path) -> None:
    """A logarithmic axis has no place for 0 and NaN; the first suspect is marked in red."""
    layers = (layer("a", 0.005), layer("equal", 0.0), layer("nan", None), layer("b", 0.5))
    red = []
    for suspect in (None, 3):
        write_plot(LayerErrorPlot(layers, "bf16", 3.0, suspect), "toy", tmp_path / "plot")
        with Image.open(tmp_path / "plot") as picture:
            assert picture.format == "PNG"
            pixels = np.asarray(picture.convert("RGB"), dtype="int64")
        red.append(int(((pixels[..., 0] > 180) & (pixels[..., 1] < 80)).sum()))
    assert red[0] == 0 < red[1]
