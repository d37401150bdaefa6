"""The time of each token over its position."""

from __future__ import annotations

from drawn import check, svg, texts

from modelzoo.views.plots import tokens
from modelzoo.views.plots.tokens import Tokens, TokenSeries

DATA = Tokens("llm", (TokenSeries("fp32", (0.040, 0.041, 0.042)), TokenSeries("bf16", (0.030, 0.031, 0.032))))


def test_every_setting_has_a_line() -> None:
    """The axes say what is drawn."""
    drawing = svg(tokens.plot(DATA))
    check(drawing)
    assert {"fp32", "bf16", "number of the token", "time in ms"} <= set(texts(drawing))


def test_tokens_are_counted_from_the_first_one() -> None:
    """The first has no time after another one, so the table begins with the second."""
    cells = {column.title: column.cells for column in tokens.columns(DATA)}
    assert cells["token"] == ("2", "3", "4") * 2
    assert cells["median time"][:2] == ("40.00 ms", "41.00 ms")


def test_long_generations_are_thinned_out() -> None:
    """Both ends are kept."""
    points = TokenSeries("fp32", tuple(0.04 + 1e-6 * n for n in range(1000))).points
    assert len(points) == tokens.MOST_POINTS
    assert (points[0][0], points[-1][0]) == (2, 1001)


def test_nothing_is_drawn_without_tokens() -> None:
    """Other models have none."""
    assert tokens.plot(Tokens("resnet50", ())) is None
