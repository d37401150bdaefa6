"""The colours of the plots."""

from __future__ import annotations

import pytest

from modelzoo.document import theme


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def _contrast(a: str, b: str) -> float:
    light, dark = sorted(map(_luminance, (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("replaced", [{}, theme.DARK], ids=["light", "dark"])
def test_texts_can_be_read(replaced: dict[str, str]) -> None:
    """4.5 for text, also on bands and segments (WCAG 2.2, 1.4.3); 3 for the first three series (1.4.11)."""
    ink, faint, page, band, grey = (
        replaced.get(each, each) for each in (theme.INK, theme.FAINT, theme.PAGE, theme.BAND, theme.GREY)
    )
    assert min(_contrast(text, ground) for text in (ink, faint) for ground in (page, band)) >= 4.5
    assert _contrast(ink, grey) >= 4.5
    for series in (theme.BLUE, theme.VERMILLION, theme.GREEN):
        assert _contrast(replaced.get(series, series), page) >= 3


def test_series_differ_without_their_colours() -> None:
    """The first seven have seven markers and seven line styles, and twenty-one still differ in something."""
    styles = [theme.series_style(index) for index in range(21)]
    assert [len(set(each)) for each in zip(*styles[:7])] == [7, 7, 7]
    assert len(set(styles)) == 21
