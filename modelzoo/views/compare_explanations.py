"""What is to be known of the passes that explain a difference. Pure."""

from __future__ import annotations

from modelzoo.comparison.explanations import Explanation
from modelzoo.formatting import seconds
from modelzoo.views.compare_columns import signed


def passes_text(found: Explanation, names: tuple[str, str]) -> str:
    """Say how much slower the audited or profiled passes were than the timed ones, and what they explain.

    Args:
        found: the explanation.
        names: of the baseline and of the other side.
    """
    sides = (
        (names[0], found.base, found.base_timed, found.base_passes),
        (names[1], found.other, found.other_timed, found.other_passes),
    )
    said = [_of_side(found.source, *side) for side in sides]
    return f"{said[0]}; {said[1]}. {_share(found)} A single operation's time has no interval."


def _of_side(source: str, name: str, passed: float, timed: float, count: int) -> str:
    slower = f"{100 * abs(passed / timed - 1):.0f} % {'more' if passed >= timed else 'less'}"
    passes = f"{count} {source} pass{'es' if count > 1 else ''}"
    return f"{name}: {passes} of {seconds(passed)}, {slower} than the timed ones ({seconds(timed)} as measured)"


def _share(found: Explanation) -> str:
    change, timed = found.other - found.base, found.other_timed - found.base_timed
    if timed == 0 or change * timed <= 0:
        return (
            f"They differ by {signed(change)} and the timed ones by {signed(timed)}, so they do not explain the timed "
            "difference."
        )
    return f"They differ by {signed(change)}, {100 * change / timed:.0f} % of the timed difference ({signed(timed)})."
