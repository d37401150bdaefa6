"""What a search found, for people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fake_runs import changed, evidence, warning
from printed import printed, sentences
from stored_search import STAGES, process, searched

from modelzoo.frozen import replace
from modelzoo.records.evidence import KernelCalls, KernelDigest, ProofVerdict
from modelzoo.records.race import Exclusion, ExclusionKind, LeftOut, Obstacle
from modelzoo.records.run import ValidityEntry
from modelzoo.setting import Setting
from modelzoo.stats.race import Choice
from modelzoo.views import tuning


def test_answers_ties_and_what_is_out(approved: Callable[[str, str], None]) -> None:
    """What was not confirmed is not faster; a tie that the confirmation found slower is none; what is out, and why."""
    answers = ({"choice": Choice(0, 1)}, {"candidates": 1}, {"choice": None}, {"stages": STAGES[:3]})
    ties = (Choice(1, 2, (1,), (1,)), *(Choice(2, 2, tied, (1, 2)) for tied in ((), (1, 0), (0,))))
    left_out = (
        *(LeftOut(*each, Obstacle.NOT_INSTALLED) for each in (("engine", "openvino"), ("recipe", "torchao"))),
        LeftOut("channels_last", None, Obstacle.FIXED),
    )
    found = searched(left_out=left_out)
    runs = [replace(run, report=changed(run.report, versions={"torch": "2.15.0"})) for run in found.runs]
    *_, out = tuning.search(replace(found, runs=tuple(runs)))
    said = [tuning.headline(searched(**each)) for each in answers]
    said += [tuning.ties(searched(choice=each)) or "no ties" for each in ties]
    said += [*map(excluded, KINDS), *sentences([out])]
    approved("said/searches.txt", "".join(f"{each}\n" for each in said))


KINDS = (
    *(ExclusionKind.FAILED, ExclusionKind.UNPROVEN, ExclusionKind.NOT_VALID, ExclusionKind.NOT_JUDGED),
    ExclusionKind.FEW_PRIMITIVES,
)


def excluded(kind: ExclusionKind) -> str:
    """Why a candidate is out, by what its runs or its judgement show."""
    found = searched(excluded=(Exclusion(1, kind),), candidates=2)
    proof = evidence(ProofVerdict.NOT_FP32)
    kernels = KernelDigest("0", (KernelCalls("jit", "fp32", 53),))
    runs = []
    for run in found.runs:
        report = changed(run.report, kernels=kernels, **({"evidence": proof} if run.group else {}))
        failed = kind is ExclusionKind.FAILED and run.group == 1 and run.round == 1
        runs.append(replace(run, report=None, error="no compiler") if failed else replace(run, report=report))
    entry = ValidityEntry("toy", 1, Setting("bf16"), exit_code=2, error="no data")
    validity = (entry,) if kind is ExclusionKind.NOT_JUDGED else ()
    *_, out = tuning.search(replace(found, runs=tuple(runs), validity=validity))
    return " ".join(sentences([out]))


def test_a_winner_that_is_not_confirmed_is_no_winner() -> None:
    """It seemed to be faster."""
    runs = [run for run in searched().runs if run.round < 3]
    for number in range(3, 7):
        runs += [process(0, number, 1.0), process(2, number, 1.0 + 0.1 * (-1) ** number)]
    found = replace(searched(), runs=tuple(runs))
    said = tuning.headline(found)
    assert said.startswith("nothing is significantly faster here than the default, fp32: fp32 compile channels-last")
    assert "which is AMBIGUOUS (p = " in said
    assert tuning.winning_report(found) == found.runs[-2].report, "the default's last process"
    assert tuning.speed_sentence(found) == "the default: nothing was significantly faster on this machine"


def test_bf16_that_was_not_judged_is_said_with_the_answer() -> None:
    """A reader must not take it for slower; of fp32, nothing is said."""
    found = searched(excluded=(Exclusion(1, ExclusionKind.RANDOM_WEIGHTS),), candidates=2)
    base, other, *rest = found.requested
    for precision in ("fp32", "bf16"):
        requested = (base, replace(other, setting=Setting(precision)), *rest)
        (said, *_) = tuning.answer(replace(found, requested=requested))
        assert ("--allow-unjudged lets it win all the same" in str(said)) == (precision == "bf16")


def test_a_search_that_measured_nothing_has_its_answer_only(tmp_path: Path) -> None:
    """No empty tables, and no process to repeat."""
    nothing = replace(searched(choice=None, excluded=(), stages=()), runs=())
    assert printed(tuning.document(nothing)).count("\n") == 1
    assert tuning.write_files(nothing, tmp_path / "r.json", "toy", "trace") == []


def test_what_distorts_the_confirmation_is_said() -> None:
    """Conditions of the search do not matter for the answer, and notes do not matter much."""
    runs = [
        replace(run, report=replace(run.report, warnings=(warning(code),)))
        for run in searched().runs
        for code in ("OTHER_LOAD" if run.round > 2 else "OUTLIERS",)
    ]
    *_, notices = tuning.document(replace(searched(), runs=tuple(runs)))
    assert [each.word for each in notices.items] == ["warning"]


def test_the_winner_is_written_as_a_setting_and_as_python(tmp_path: Path) -> None:
    """Both say how fast it is; the lines say how to use them."""
    lines = tuning.write_files(searched(), tmp_path / "r.json", "toy", "trace")
    setting, code = (tmp_path / "r.setting").read_text(), (tmp_path / "r.py").read_text()
    assert setting.startswith("# toy: 2.51 times (")
    assert "mode=compile" in setting
    assert "torch.compile(model)" in code
    assert lines[0].startswith("command line: modelzoo run toy --setting 'precision=fp32 engine=torch mode=compile")
    assert lines[1] == f"settings file: {tmp_path / 'r.setting'}, for --setting @{tmp_path / 'r.setting'}"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """It says which; the command line says what the file would."""
    (tmp_path / "r.setting").mkdir()
    command, problem = tuning.write_files(searched(), tmp_path / "r.json", "toy", "trace")
    assert command.startswith("command line: modelzoo run toy --setting ")
    assert problem.startswith(f"no settings file: cannot write {tmp_path / 'r.setting'} or ")
