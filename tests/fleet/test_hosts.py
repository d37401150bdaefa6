"""Which host is odd: a planted one is found, equal ones are not, and few hosts need what is known of sessions."""

from __future__ import annotations

import math
import random

import pytest

from modelzoo.fleet.hosts import host_ratios
from modelzoo.results.speed import Speed


def odd(found: Speed | None) -> bool:
    """Whether the verdict says so."""
    return found is not None and found.verdict.outcome in ("FASTER", "SLOWER")


def drawn(seed: int, hosts: int, settings: int = 1, spread: float = 0.01) -> list[list[float]]:
    """Log levels of equal hosts, each of which is faster or slower as a whole by ``spread``."""
    source = random.Random(seed)
    found = []
    for _ in range(hosts):
        whole = source.gauss(0.0, spread)
        found.append(
            [math.log(0.1 * (setting + 1)) + whole + source.gauss(0.0, spread / 4) for setting in range(settings)]
        )
    return found


def test_a_slow_host_among_ten_is_named_with_its_interval() -> None:
    """10 % slower, where equal hosts differ by 1 %."""
    levels = drawn(1, 10)
    levels[3][0] += math.log(1.10)
    found = host_ratios(levels)
    assert [odd(row[0]) for row in found] == [index == 3 for index in range(10)]
    assert found[3][0] is not None
    slow = found[3][0].ratio
    assert slow is not None
    assert slow.low < 1 / 1.10 < slow.high
    assert slow.high < 1 / 1.05


def test_a_host_that_is_slow_in_one_setting_is_found_there() -> None:
    """The mean over all settings hides it."""
    levels = drawn(2, 10, settings=4)
    levels[7][2] += math.log(1.3)
    found = host_ratios(levels)
    assert odd(found[7][3])
    assert not any(odd(standing) for index, row in enumerate(found) for standing in row if index != 7)


@pytest.mark.parametrize(("hosts", "settings"), [(3, 1), (10, 1), (10, 4)])
def test_equal_hosts_are_rarely_called_odd(hosts: int, settings: int) -> None:
    """In at most 2 % of all fleets, as verdicts promise: 300 fleets may show 13 (binomial, 99 %)."""
    false = sum(
        any(odd(standing) for row in host_ratios(drawn(seed, hosts, settings)) for standing in row)
        for seed in range(300)
    )
    assert false <= 13


def test_a_setting_that_a_host_lacks_is_compared_among_the_others() -> None:
    """The mean is over the settings that all of them have."""
    levels: list[list[float | None]] = [list(row) for row in drawn(3, 6, settings=3)]
    levels[5][2] = None
    levels[1][2] = (levels[1][2] or 0.0) + math.log(1.3)
    found = host_ratios(levels)
    assert found[5][3] is None
    assert [odd(row[3]) for row in found] == [index == 1 for index in range(6)]
    assert not any(odd(row[0]) for row in found)


def test_without_three_hosts_in_a_setting_nothing_is_said_about_it() -> None:
    """Nor about the mean, if there is no setting that all hosts have."""
    found = host_ratios([[0.0, None], [0.01, None], [None, 0.0], [0.02, 0.0]])
    assert [row[0] for row in found] == [None] * 4
    assert [row[1] is None for row in found] == [False, False, True, False]
    assert [row[2] for row in found] == [None] * 4
