"""What --redact removes, and what stays."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of, warning
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.run import EnvironmentChanges, Result, Thumbnail, ValidityEntry
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet
from modelzoo.views.page.redaction import redacted
from modelzoo.warning import WarningCode, warning_for

SECRETS = ("joe", "acme", "secret", "cat.jpg", "hostname7", "10.1.2.3")


def private() -> Result:
    """A result with something private in every place that can hold it."""
    setting = Setting(weights="/srv/acme/secret-model.pt", input="/home/joe/My Pictures/cat.jpg", batch=1)
    machine = replace(
        MACHINE, environment={"LD_PRELOAD": "/opt/acme/lib.so", "OMP_NUM_THREADS": "4"}, image="registry.acme:5000/x"
    )
    run = make(
        [0.1, 0.1, 0.1],
        setting=setting,
        machine=machine,
        weights=replace(WEIGHTS, kind=WeightsKind.PATH, name="secret-model.pt", path="/srv/acme/secret-model.pt"),
        items=("cat.jpg",),
        environment=EnvironmentChanges({"TOKEN_X": "secret"}, {"MODELZOO_X": "/srv/acme"}),
        warnings=(warning("X", "LD_PRELOAD=/opt/acme/lib.so is set; see ~/joe/notes.txt", "ask joe@acme.example"),),
    )
    failed = make(None, setting=Setting(batch=2), error="cannot read /data/acme/secret model/x.bin: on hostname7")
    result = result_of(run, failed)
    command = (
        *("/home/joe/venv/bin/modelzoo", "run", "./acme/net", "--weights", "/srv/acme/secret-model.pt"),
        *("--input=/home/joe/My Pictures/cat.jpg", "--json", "secret", "--output", "a b/secret", "--batch", "1"),
    )
    judged = ValidityEntry(
        "toy", 0, setting, 2, error="secret-model.pt is damaged", files=("out/acme/cat_compared.jpg",)
    )
    thumbnail = Thumbnail("cat_compared.jpg", b"jpeg")
    entry = replace(judged, thumbnails=(thumbnail,))
    return replace(result, command=command, validity=(entry,))


def test_nothing_private_is_left_in_result_or_page() -> None:
    """Paths, names of files, values of variables, users, hosts and pictures."""
    found = redacted(private(), ["hostname7", "joe"])
    text = encode_json(found).decode()
    given = [ResultSet("Result 1", (StoredResult("session 1", found),))]
    for shown in (text, html(build.page(given, Question()))):
        assert [secret for secret in SECRETS if secret in shown] == []
        assert "cat" not in shown.replace("category", "").replace("indicat", "").split()
    assert found.validity[0].thumbnails == ()
    assert found.runs[0].report is not None
    values = found.runs[0].report.provenance.machine.environment.values()
    assert all(value.startswith("hidden-") for value in values)


def test_what_was_measured_stays() -> None:
    """Samples, settings, hardware and versions are those of the result."""
    before, after = private(), redacted(private())
    for run, hidden in zip(before.runs, after.runs):
        assert run.steady == hidden.steady
        assert run.workload == hidden.workload
    mine, theirs = before.runs[0].report, after.runs[0].report
    assert mine is not None
    assert theirs is not None
    assert (
        replace(
            theirs.provenance.machine,
            environment=mine.provenance.machine.environment,
            image=mine.provenance.machine.image,
        )
        == mine.provenance.machine
    )
    assert theirs.setting.batch == 1
    assert theirs.prepared.weights.sha256 == mine.prepared.weights.sha256


def test_hints_of_the_suite_can_still_be_followed() -> None:
    """They name variables with the values to set; a hint with something filled in is held to the same rule as any."""
    hint = warning_for(WarningCode.PAGE_FAULTS, faults=9, when="per second").hint
    given = (warning("PAGE_FAULTS", "MALLOC_TOP_PAD_=1 is set", hint), warning("PAGE_FAULTS", "m", f"{hint} A_B=1"))
    report = redacted(result_of(make([0.1], warnings=given))).runs[0].report
    assert report is not None
    first, second = report.warnings
    assert first.message.startswith("hidden-")
    assert first.hint == hint
    assert second.message == "m"
    assert second.hint.startswith("hidden-")


def test_the_command_can_still_be_read() -> None:
    """Options stay, equal paths get equal substitutes."""
    assert redacted(private()).command == (
        *("modelzoo", "run", "hidden-1", "--weights", "hidden-2", "--input=hidden-3", "--json", "hidden-4"),
        *("--output", "hidden-5", "--batch", "1"),
    )
    report = redacted(private()).runs[0].report
    assert report is not None
    assert report.prepared.weights.path == "hidden-2"
    plain = Result(("modelzoo", "run", "bert", "--weights", "random", "--vary", "mode=eager,compile"), "2026")
    assert redacted(plain).command == plain.command


@pytest.mark.parametrize(
    "text",
    [
        "12 images/s at 3.5 GB/s, 0.5 FLOP/byte",
        "brgconv:avx512_core_bf16, aten::conv2d, layer1.0.conv1",
        "torch 2.10.0+cpu, glibc 2.36, Python 3.11.2",
        "ratio 1.05 [1.01, 1.09]; and/or n/a",
        "Intel(R) Xeon(R) CPU @ 2.50GHz",
    ],
)
def test_text_without_names_stays_as_it_is(text: str) -> None:
    """Units, kernels, versions and alternatives are no paths."""
    result = result_of(make([1.0], title=text))
    found = redacted(result).runs[0].report
    assert found is not None
    assert found.title == text


@given(st.sampled_from(["VALID", "fp32", "eager", "toy", "auto", "bf16", "cpu", "active"]))
def test_a_file_that_is_called_like_a_word_of_the_format_breaks_nothing(word: str) -> None:
    """Enumerations and settings keep their values."""
    result = result_of(make([1.0], setting=Setting("bf16", input=f"/x/{word}.jpg")))
    found = redacted(result)
    assert found.runs[0].requested.precision == "bf16"
    assert found.runs[0].requested.input == "hidden-1"


@pytest.mark.parametrize("path", sorted((DATA / "results").glob("*.json")), ids=lambda path: path.stem)
def test_stored_results_can_be_redacted(path: object) -> None:
    """No path is left, and the result can still be stored and shown."""
    result = redacted(store.read(path))  # type: ignore[arg-type]
    text = encode_json(result).decode()
    assert "~/" not in text
    assert "/home/" not in text
    given = [ResultSet("Result 1", (StoredResult("session 1", result),))]
    assert "~/" not in html(build.page(given, Question()))
