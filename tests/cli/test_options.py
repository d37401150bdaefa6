"""What options and environment variables are parsed to; an image's backend is nothing but a default."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from modelzoo.cli import options as arguments
from modelzoo.errors import UsageError
from modelzoo.setting import Setting
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def setting(*words: str) -> Setting:
    """What a command line of these words asks for."""
    parser = argparse.ArgumentParser()
    arguments.add_setting(parser)
    return arguments.make_setting(parser.parse_args(words), MLP, {})


def test_an_infinite_time_limit_is_none() -> None:
    """JSON, in which jobs and results are written, has no infinity."""
    parser = argparse.ArgumentParser()
    arguments.add_plan(parser)
    assert arguments.make_plan(parser.parse_args(["--max-seconds", "inf"])).max_seconds is None


@pytest.mark.parametrize(("value", "backend"), [(None, "auto"), ("", "auto"), ("blas", "blas"), ("onednn", "onednn")])
def test_the_variable_names_the_default_backend(
    value: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unset or empty leaves the choice to PyTorch."""
    if value is not None:
        monkeypatch.setenv("MODELZOO_BACKEND", value)
    assert setting().backend == backend


def test_the_option_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image's default can be overruled for one call, also back to auto, whatever the variable holds."""
    monkeypatch.setenv("MODELZOO_BACKEND", "blas")
    assert setting("--backend", "auto").backend == "auto"
    monkeypatch.setenv("MODELZOO_BACKEND", "nonsense")
    assert setting("--backend", "onednn").backend == "onednn"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, not an option that nobody gave."""
    monkeypatch.setenv("MODELZOO_BACKEND", "openblas")
    with pytest.raises(
        UsageError, match="MODELZOO_BACKEND=openblas is not a backend; set it to one of auto, onednn, blas"
    ):
        setting()


def test_output_goes_beside_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results have a place of their own (an image's volume), so have pictures and plots; --output wins."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    parser = argparse.ArgumentParser()
    arguments.add_validity(parser)
    judging = arguments.make_judging(parser.parse_args([]), MLP)
    assert judging.output == tmp_path / "results" / "output" / "mlp"
    judging = arguments.make_judging(parser.parse_args(["--output", str(tmp_path / "own")]), MLP)
    assert judging.output == tmp_path / "own" / "mlp"
    monkeypatch.delenv("MODELZOO_RESULTS")
    assert arguments._output(None, MLP) == MLP.directory / "output"
