"""The scripts of scripts/: wrong calls end with one line and exit code 2, before anything is installed or built."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from programs import program, ran


def call(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return ran(ROOT / "scripts" / script, *arguments, **variables)


@pytest.mark.parametrize(
    "line",
    [
        *("setup", "setup lock-cpu.txt", "setup lock.txt lock-test.txt", "setup --check", "setup lock.txt --check"),
        *("lock --help", "lock --cpu-index", "lock --cpu-index 2.14.1", "lock lock.txt", "smoke-images --help"),
        *("build-images --general-index --help", "push-images", "push-images no-slash", "push-images host/zoo --help"),
        *("torch-env", "torch-env --unpinned", "torch-env 2.9", "torch-env 2.9.1 dir more", "test-torch"),
        *("test-torch --unpinned", "install-checkout", "install-checkout python more", "build-wheel dist"),
        *("setup-jittor --help", "setup-jittor ''", "container-engine", "container-engine stop --all"),
    ],
)
def test_a_wrong_call_prints_the_usage(line: str) -> None:
    """In one line, not an error of the shell such as ``1: parameter not set``."""
    script, *arguments = shlex.split(line)
    done = call(script, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: scripts/{script} ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "MODELZOO_TORCH=CPU setup lock.txt",
            "MODELZOO_TORCH=CPU is not known; set it to cpu or cuda, or leave it unset",
        ),
        ("MODELZOO_TORCH=CPU torch-env 2.9.1", "MODELZOO_TORCH=CPU is not known; set it to cpu or leave it unset"),
        ("torch-env 2.5.1", "torch 2.5.1 is not known; give a release from 2.6.0 on, for example 2.9.1"),
        (f"torch-env 2.9.1 {ROOT}", f"{ROOT} exists and is no environment; name another directory"),
        (
            "torch-env 2.9.1 /dev/null/dir",
            "the checksums of torch 2.9.1 are not in requirements/; to install it without them, run scripts/torch-env "
            "--unpinned 2.9.1 /dev/null/dir",
        ),
        (
            "PYTHON=/bin/false setup-jittor /dev/null/dir",
            "PYTHON=/bin/false is not Python 3.10 to 3.12 with venv, which Jittor needs",
        ),
        ("push-images host/zoo --nodes local", "--nodes needs two Docker endpoints, first that of amd64"),
    ],
)
def test_what_makes_no_sense_is_refused(line: str, message: str) -> None:
    """Before anything is installed, and without touching a directory of something else."""
    script, *arguments = (word for word in line.split() if "=" not in word)
    done = call(script, *arguments, **dict(word.split("=") for word in line.split() if "=" in word))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{script}: error: {message}\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lock", "uv is not installed"),
        ("build-images", "docker buildx is not installed"),
        ("push-images host/zoo", "docker buildx is not installed"),
        ("smoke-images", "no Docker engine answers"),
    ],
)
def test_a_missing_program_is_reported(line: str, message: str, tmp_path: Path) -> None:
    """The script says what to install, instead of ``not found`` and exit code 127."""
    for name in ("dirname", "git", "mktemp", "chmod", "mkdir", "rm"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    script, *arguments = line.split()
    done = call(script, *arguments, PATH=str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert f"{script}: error: {message}" in done.stderr


@pytest.mark.parametrize(
    ("called", "present", "missing"),
    [
        ("torch2.10.0_x86_modelzoo", "", "torch2.10.0_x86_modelzoo is not on this machine; "),
        (
            *("torch2.10.0_acl_modelzoo", "torch2.10.0_acl_modelzoo"),
            "modelzoo is not on this machine, with whose outputs those of torch2.10.0_acl_modelzoo are compared",
        ),
    ],
)
def test_an_image_that_is_missing_is_reported_before_any_runs(
    called: str, present: str, missing: str, tmp_path: Path
) -> None:
    """Nor is one of that name pulled from a registry of strangers."""
    script = f'#!/bin/sh\n[ "$1" = version ] && echo amd64 && exit\n[ "$3" = "modelzoo:{present}" ]\n'
    program(tmp_path / "docker", script)
    done = call("smoke-images", called, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 2
    assert done.stderr.startswith(f"smoke-images: error: modelzoo:{missing}")


RECORD = '#!/bin/sh\necho "{name} $*" >>"$RECORD"\n{rest}'
MAKES_ENVIRONMENTS = """
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/pyvenv.cfg"; fi
"""


class Checkout:
    """A copy of the scripts with a ``.venv`` and a ``uv`` that install nothing, and the calls of these programs."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkout"
        self._calls = directory / "calls"
        self._calls.touch()
        (self.root / ".venv" / "bin").mkdir(parents=True)
        (directory / "path").mkdir()
        self.path = directory / "path"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        shutil.copytree(ROOT / "requirements", self.root / "requirements")
        shutil.copy(ROOT / "pyproject.toml", self.root)
        self.program(self.root / ".venv" / "bin" / "modelzoo")
        self.python()
        self.uv()

    def program(self, path: Path, rest: str = "") -> None:
        """Create a program that records its arguments and then does ``rest``."""
        program(path, RECORD.format(name=path.name, rest=rest))

    def python(self, rest: str = "") -> None:
        """Create the Python of ``.venv``, which makes environments."""
        self.program(self.root / ".venv" / "bin" / "python", MAKES_ENVIRONMENTS + rest)

    def uv(self, rest: str = "") -> None:
        self.program(self.path / "uv", rest)

    def call(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": f"{self.path}:/usr/bin:/bin", "RECORD": str(self._calls)}
        return ran(self.root / "scripts" / script, *arguments, environ=environ, **variables)

    def calls(self) -> list[str]:
        found = self._calls.read_text().splitlines()
        self._calls.write_text("")
        return found


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_call_says_what_comes_and_the_next_one_installs_nothing(checkout: Checkout) -> None:
    """Two steps with their size and time, all with checksums; then only ``modelzoo run``, in silence."""
    done = checkout.call("run", PIP_INDEX_URL="https://mirror/simple")
    assert done.returncode == 0, done.stderr
    first, size, second = done.stderr.splitlines()
    assert first.startswith("step 1 of 2: install PyTorch")
    assert re.search(r"installing .* GB to download", size)
    assert second == "step 2 of 2: time 4 models in 2 precisions, which takes about 9 minutes"
    calls = checkout.calls()
    (install,) = (line for line in calls if line.startswith("uv "))
    assert "--default-index https://mirror/simple --no-deps --require-hashes" in install
    assert install.endswith("-r requirements/lock.txt")
    assert calls[-1] == "modelzoo run"
    done = checkout.call("run", "resnet50", "--bf16")
    assert (done.stdout, done.stderr, checkout.calls()) == ("", "", ["modelzoo run resnet50 --bf16"])


def test_everything_that_a_script_installs_has_a_checksum_or_says_that_it_has_none() -> None:
    """Each call of pip and uv in the scripts; those of what is not in a lock are listed here."""
    scripts = [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run", ROOT / "pytorch_env" / "unpack-wheels"]
    calls = [
        line.strip()
        for script in scripts
        for line in script.read_text().replace("\\\n", " ").splitlines()
        if re.search(r"(?<![-\w])install(?![-\w()])", line) and not re.search(r"^ *#|echo|say|apt-get|fail", line)
    ]
    assert len(calls) > 10
    with_arguments_of_the_caller = re.compile(r'"\$@" >&2( && return| \|\|)?$')
    without = [
        re.sub(" +", " ", call)
        for call in calls
        if "--require-hashes" not in call and not with_arguments_of_the_caller.search(call)
    ]
    assert sorted(without) == [
        '"$python" -m pip ${quiet:+"$quiet"} install --retries 1 --index-url "$cpu" "$torch" "torchvision$vision" '
        ">&2 ||",
        '"$work/env/bin/python" -m pip --quiet install --no-deps "$wheel"',
        'PYTHONPATH=$build "$python" -m pip --quiet install --no-deps --no-build-isolation --editable . >&2',
        'install --constraint "$directory/constraints.txt" --requirement "$directory/requirements.txt" "$torch" '
        '"torchvision$vision"',
        'pip install --retries 1 --index-url "$cpu" torch==2.10.0 torchvision==0.25.0 ||',
        'python3 -m pip install "$@" --index-url "$TORCH_INDEX" $pins',
    ]


@pytest.mark.parametrize("name", ["build", "lock-browser", "uv"])
def test_a_tool_is_one_pin_with_checksums(name: str) -> None:
    """What sets up the rest, and what only CI installs."""
    pinned = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert re.fullmatch(r"[a-z-]+==[0-9.]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", pinned)


def test_a_torch_that_is_not_pinned_is_said_aloud(checkout: Checkout) -> None:
    """Without a lock of PyTorch's CPU build, taken on request only; everything else is verified."""
    done = checkout.call("setup", "lock.txt", MODELZOO_TORCH="cpu")
    assert done.returncode == 0, done.stderr
    assert (
        "setup: torch 2.10.0 and torchvision from https://download.pytorch.org/whl/cpu are not pinned: requirements/ "
        "has no checksums of this build (scripts/lock --cpu-index writes them)\n"
    ) in done.stderr
    assert any("--require-hashes --compile-bytecode -r requirements/lock-cpu.txt" in line for line in checkout.calls())
    assert "not pinned" not in checkout.call("setup", "lock-test.txt").stderr


PYTORCH = "https://download.pytorch.org/whl/cpu unsafe-best-match"


@pytest.mark.parametrize(
    ("script", "argument", "variables", "lock", "where"),
    [
        ("setup", "lock.txt", {}, "lock-cpu-index.txt", PYTORCH),
        ("setup", "lock-test.txt", {"CPU_INDEX": "https://m/cpu"}, "lock-cpu-index-test.txt", "https://m/cpu unsafe"),
        ("setup", "lock.txt", {"MODELZOO_TORCH": "cuda"}, "lock.txt", " "),
        ("torch-env", "2.14.1", {"MODELZOO_TORCH": "cpu"}, "lock-cpu-index.txt", PYTORCH),
        ("torch-env", "2.10.0", {}, "lock.txt", " "),
    ],
)
def test_a_lock_of_cpu_builds_is_taken_by_itself(
    script: str, argument: str, variables: dict[str, str], lock: str, where: str, checkout: Checkout
) -> None:
    """With checksums, from PyTorch's index and the general one; MODELZOO_TORCH=cuda takes the general build."""
    checkout.uv('echo "$UV_INDEX $UV_INDEX_STRATEGY" >>"$RECORD"')
    for name in ("lock-cpu-index", "lock-cpu-index-test"):
        (checkout.root / "requirements" / f"{name}.txt").write_text("torch==2.14.1+cpu \\\n    --hash=sha256:0\n")
    done = checkout.call(script, argument, **variables)
    assert done.returncode == 0, done.stderr
    assert "not pinned" not in done.stderr and "WITHOUT" not in done.stderr
    calls = checkout.calls()
    (install,) = (number for number, line in enumerate(calls) if line.startswith("uv "))
    assert "--no-deps --require-hashes" in calls[install]
    assert calls[install].endswith(f" requirements/{lock}")
    assert calls[install + 1].startswith(where)


def test_without_uv_a_pinned_one_is_installed(checkout: Checkout) -> None:
    """Its own checksum is verified, too."""
    (checkout.path / "uv").rename(checkout.root / ".venv" / "bin" / "uv")
    assert checkout.call("setup", "lock.txt").returncode == 0
    calls = checkout.calls()
    assert "python -m pip -qq install --no-deps --require-hashes -r requirements/uv.txt" in calls
    assert any(line.startswith("uv ") and "--require-hashes" in line for line in calls)


def test_pip_installs_if_uv_cannot(checkout: Checkout) -> None:
    """The checksums are verified all the same; if pip cannot either, nothing is timed, and the next call goes on."""
    checkout.uv("exit 1")
    done = checkout.call("setup", "lock.txt")
    assert done.returncode == 0
    assert "setup: installing with uv failed (see above); pip tries it now" in done.stderr
    assert "python -m pip --quiet install --no-deps --require-hashes -r requirements/lock.txt" in checkout.calls()
    (checkout.root / ".venv" / "modelzoo-lock.txt").unlink()
    checkout.python("exit 1")
    done = checkout.call("run")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "setup: error: the packages cannot be installed (see above); if the index does not answer, set PIP_INDEX_URL "
        "to a mirror"
    )
    assert not any(line.startswith("modelzoo") for line in checkout.calls())
    done = checkout.call("setup", "--check", "lock.txt")
    assert (done.returncode, done.stdout, done.stderr, checkout.calls()) == (1, "", "", [])


@pytest.mark.parametrize(("script", "arguments"), [("setup", ["lock.txt"]), ("torch-env", ["--unpinned", "2.9.1"])])
def test_an_index_without_torch_is_named(script: str, arguments: list[str], checkout: Checkout) -> None:
    """PyTorch's own index cannot be reached from everywhere; the general one is the way out."""
    checkout.python('case "$*" in *--index-url*) exit 1 ;; esac\n')
    done = checkout.call(script, *arguments, MODELZOO_TORCH="cpu")
    assert done.returncode == 2
    assert f"{script}: error: torch " in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "https://download.pytorch.org/whl/cpu (see above); set CPU_INDEX to a mirror of it, or unset MODELZOO_TORCH "
        "for the build of the general index"
    )
    assert not any(line.startswith("uv ") and "--require-hashes" not in line for line in checkout.calls())


def test_one_command_pins_the_base_images(checkout: Checkout) -> None:
    """To the digests that their tags have in the registry, in both files; a repetition writes the new ones."""
    (checkout.root / "pytorch_env").mkdir()
    files = [checkout.root / name for name in ("pytorch_env/versions.sh", "docker-bake.hcl")]
    for file in files:
        shutil.copy(ROOT / file.relative_to(checkout.root), file)

    def pins() -> list[str]:
        return re.findall(r'(?:BASE_IMAGE=|base = ")([^" ]+)', "".join(file.read_text() for file in files))

    def answer(text: str) -> None:
        checkout.program(checkout.path / "docker", f'case "$*" in *imagetools*) {text} ;; esac\n')

    before = pins()
    assert len(before) == 2
    answer("echo nothing >&2; exit 1")
    done = checkout.call("lock", "--bases")
    name = before[0].partition("@")[0]
    said = f"lock: error: the registry has no digest of {name} (see above); nothing was changed"
    assert (done.returncode, done.stderr.splitlines()[-1], pins()) == (2, said, before)
    for digest in ("bbbb", "cccc"):
        answer(f"echo sha256:{digest}")
        done = checkout.call("lock", "--bases")
        assert done.returncode == 0, done.stderr
        assert pins() == [f"{name}@sha256:{digest}"] * 2


@pytest.mark.parametrize(("version", "vision"), [("2.14.1", ">=0.29"), ("2.13.0", "==0.28.*")])
def test_another_torch_comes_with_its_torchvision_and_the_pins_of_the_lock(
    version: str, vision: str, checkout: Checkout
) -> None:
    """All requirements of the suite, of which only torch and what it brings along differ; a repetition does nothing.

    ``===`` leaves out builds with a local version, such as 2.13.0+cpu, whose torchvision the index may lack.
    """
    done = checkout.call("torch-env", "--unpinned", version)
    assert done.returncode == 0, done.stderr
    environment = checkout.root / "envs" / f"torch-{version}"
    assert "torch, torchvision and what else they require are installed WITHOUT checksums\n" in done.stderr
    assert done.stderr.endswith(complete := f"torch-env: {environment}/bin/python is complete\n")
    pinned, install = (line for line in checkout.calls() if line.startswith("uv "))
    assert pinned.endswith(f"--no-deps --require-hashes --requirement {environment}/pinned.txt")
    assert install.endswith(f"torch==={version} torchvision{vision}")
    hashed = (environment / "pinned.txt").read_text()
    assert re.search("^numpy==2.*\n    --hash=sha256:", hashed, re.MULTILINE)
    constraints = (environment / "constraints.txt").read_text()
    assert "\nnumpy==2" in constraints
    assert not re.search("^(torch|nvidia|triton|sympy)", hashed + constraints, re.MULTILINE)
    requirements = (environment / "requirements.txt").read_text().splitlines()
    assert {"torch>=2.6", "transformers>=4.25", "msgspec>=0.20", "matplotlib>=3.7"} < set(requirements)
    assert not [line for line in requirements if line.startswith(("modelzoo", "onnx", "pytest"))]
    done = checkout.call("torch-env", version)
    assert (done.returncode, done.stderr, checkout.calls()) == (0, complete, [])


def test_an_environment_that_was_not_completed_is_completed(checkout: Checkout, tmp_path: Path) -> None:
    """If uv and pip fail, the next call goes on; the directory may be named."""
    checkout.uv("exit 1")
    checkout.python('case "$*" in *torchvision==*) exit 1 ;; esac\n')
    words = ("--unpinned", "2.9.1", str(tmp_path / "mine"))
    done = checkout.call("torch-env", *words)
    assert done.returncode == 2
    assert "installing with uv failed (see above); pip tries it now" in done.stderr
    assert "is complete" not in done.stderr
    checkout.uv()
    assert checkout.call("torch-env", *words).returncode == 0
    assert (tmp_path / "mine" / "modelzoo-torch-env").is_file()


AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="the directory of the engine is root's: run the tests as root")


@pytest.fixture
def root_directory() -> Iterator[Path]:
    """A directory in a place that only root can write to."""
    with tempfile.TemporaryDirectory(prefix="modelzoo-engine-", dir=Path("~root").expanduser()) as name:
        yield Path(name)


def refused(engine: Path) -> str:
    """The error of ``container-engine`` with its directory at ``engine``, and nothing is done."""
    for words in (["env"], ["directory"], ["stop", "--purge"], ["start"]):
        done = call("container-engine", *words, MODELZOO_ENGINE=str(engine))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    return done.stderr.removeprefix("container-engine: error: ").strip()


@AS_ROOT
def test_the_directory_of_the_engine_is_roots_alone_and_its_variables_can_be_evaluated(root_directory: Path) -> None:
    """Its programs come first in root's PATH; whatever characters the path has come out of ``eval``."""
    engine = root_directory / "it's $HOME; `id`"
    script = 'eval "$(scripts/container-engine env)" && printf "%s\\n" "$DOCKER_HOST" "$DOCKER_CONFIG" "$PATH"'
    done = ran("sh", "-euc", script, cwd=ROOT, MODELZOO_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    expected = [f"unix://{engine}/docker.sock", f"{engine}/config", f"{engine}/root/usr/bin:{os.environ['PATH']}"]
    assert done.stdout.splitlines() == expected
    done = call("container-engine", "directory", MODELZOO_ENGINE=str(engine / "new"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{engine / 'new'}\n", "")
    assert (engine / "new").stat().st_mode & 0o7777 == 0o700


@AS_ROOT
def test_a_directory_that_others_may_have_filled_is_refused(root_directory: Path) -> None:
    """Of another owner, open to others, a link, or in a directory where anybody may have put it."""
    other = "; set MODELZOO_ENGINE to another directory, such as /var/lib/modelzoo-engine"
    engine, link = root_directory / "engine", root_directory / "link"
    engine.mkdir(mode=0o700)
    os.chown(engine, 65534, 65534)
    assert refused(engine) == f"{engine} belongs to nobody, not to root{other}"
    os.chown(engine, 0, 0)
    engine.chmod(0o755)
    said = f"{engine} is open to others than root; if you trust what is in it, run 'chmod 0700 {engine}'"
    assert refused(engine) == said
    engine.chmod(0o700)
    link.symlink_to(engine)
    assert refused(link) == refused(link / "below") == f"{link} is not a directory, or a link to one{other}"
    root_directory.chmod(0o1777)
    assert refused(engine) == f"{root_directory} can be written to by others than root{other}"
    assert refused(Path("engine")) == "MODELZOO_ENGINE=engine is not a path like /var/lib/modelzoo-engine"


@AS_ROOT
def test_a_process_that_is_not_the_engine_is_left_alone(root_directory: Path) -> None:
    """After a crash, the number in the pid file may be that of another process."""
    engine = root_directory / "engine"
    engine.mkdir(mode=0o700)
    words = ["python3", "-c", "import time; time.sleep(60)", "--pidfile", f"{engine}/docker.pid"]
    with subprocess.Popen(words) as other:
        (engine / "docker.pid").write_text(f"{other.pid}\n")
        done = call("container-engine", "stop", "--purge", MODELZOO_ENGINE=str(engine))
        assert (done.returncode, done.stderr, other.poll()) == (0, "", None)
        other.kill()
    assert not engine.exists()


def test_only_root_may_use_the_engine(tmp_path: Path) -> None:
    """Whoever can use it is root; said in one line."""
    program(tmp_path / "id", "#!/bin/sh\necho 1000\n")
    done = call("container-engine", "env", PATH=f"{tmp_path}:{os.environ['PATH']}")
    said = "container-engine: error: the engine needs root; use sudo\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
