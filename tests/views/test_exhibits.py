"""What a judgement shows, written: CSV files, plots, pictures, their names and thumbnails."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import CsvRows, DetectionPicture, DrawnDetections, Exhibit, LayerErrorPlot, PictureSource
from modelzoo.records.partial import LayerError, Matches, UnmatchedObject
from modelzoo.records.run import THUMBNAIL_BYTES, THUMBNAILS
from modelzoo.views.exhibits import ExhibitWriter

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
