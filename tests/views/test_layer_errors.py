"""The plot of the error by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from modelzoo.records.exhibits import LayerErrorPlot
from modelzoo.records.partial import LayerError
from modelzoo.views.exhibits import write_plot


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
