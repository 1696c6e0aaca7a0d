"""What pip installs: wheel and sdist are built, complete, and what an index accepts."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest

for needed in ("build", "hatchling", "twine", "check_wheel_contents"):
    pytest.importorskip(needed, reason="of the extra `package`, which `start.py test --all` installs")

PROJECT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow  # building takes seconds, and installing the tools longer


def run(*command: str, **more: str) -> str:
    env = os.environ | more
    done = subprocess.run([sys.executable, "-m", *command], cwd=PROJECT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The paths of wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run("build", "--no-isolation", "--outdir", str(folder), ".")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_an_index_accepts_both(built):
    assert run("twine", "check", "--strict", *map(str, built)).count("PASSED") == 2
    assert "OK" in run("check_wheel_contents", str(built[0]))


def addresses(wheel: Path) -> list[str]:
    metadata = zipfile.ZipFile(wheel).read("lplab-0.1.0.dist-info/METADATA").decode()
    return [line for line in metadata.splitlines() if line.startswith("Project-URL:")]


def test_addresses_are_those_of_the_repository_that_is_named(built, tmp_path):
    if "LPLAB_REPOSITORY" not in os.environ:
        assert addresses(built[0]) == []  # a checkout doesn't know them
    run("build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), ".", LPLAB_REPOSITORY="Some/where")
    (wheel,) = tmp_path.glob("*.whl")
    assert "Project-URL: Source, https://github.com/Some/where" in addresses(wheel)
    assert "Project-URL: Documentation, https://some.github.io/where/" in addresses(wheel)


def test_a_repository_that_is_none_is_refused(tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), "."]
    env = os.environ | {"LPLAB_REPOSITORY": "https://example.org"}
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, env=env)
    assert done.returncode != 0 and 'LPLAB_REPOSITORY must be "owner/name"' in done.stdout + done.stderr


def test_the_wheel_has_all_modules_and_data_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    modules = {f"lplab/{path.relative_to(PROJECT / 'lplab')}" for path in (PROJECT / "lplab").rglob("*.py")}
    assert modules <= names
    assert {name.partition("/")[0] for name in names} == {"lplab", "lplab-0.1.0.dist-info"}
    assert not any("__pycache__" in name for name in names)
    files = (path for path in (PROJECT / "data").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert {path.name for path in files} <= {name.rpartition("/")[2] for name in names}


def test_the_sdist_has_the_tests_and_the_labs(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "start.py", "labs/README.md"} <= names
    assert any(name.startswith("tests/") for name in names) and not any(
        part.endswith("cache__") or (part.startswith(".") and part.endswith("cache"))
        for name in names
        for part in name.split("/")
    )


def test_a_wheel_alone_quantizes_with_numpy_alone(built, tmp_path):
    """Unpacked beside numpy, with all other packages out of reach."""
    zipfile.ZipFile(built[0]).extractall(tmp_path)
    code = (
        "import sys, numpy\n"
        "kept = {name.partition('.')[0] for name in sys.modules}\n"
        "class NumpyAlone:\n"
        "    def __init__(self, finder):\n"
        "        self.finder = finder\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        known = {*kept, *sys.stdlib_module_names, 'lplab'}\n"
        "        return self.finder.find_spec(name, path, target) if name.partition('.')[0] in known else None\n"
        "sys.meta_path[:] = map(NumpyAlone, sys.meta_path)\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import lplab\n"
        f"assert lplab.__file__.startswith({str(tmp_path)!r}), lplab.__file__\n"
        "from lplab import arithmetic, compression, formats, hardware, quantizers\n"
        "print(formats.get('e4m3fn').quantize(numpy.float32([0.1])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[0.1015625]\n", done.stderr


def test_labs_run_alone_in_an_empty_folder_from_the_wheel(built, tmp_path):
    """Nothing of the repository is there but the two notebooks."""
    package, folder = tmp_path / "package", tmp_path / "my labs"
    zipfile.ZipFile(built[0]).extractall(package)
    folder.mkdir()
    for lab in sorted((PROJECT / "labs").glob("0[01]_*.ipynb")):
        book = nbformat.read(lab, as_version=4)
        where = f"import lplab\nassert lplab.__file__.startswith({str(package)!r}), lplab.__file__"
        book.cells.insert(0, nbformat.v4.new_code_cell(where))
        nbformat.write(book, folder / lab.name)
    env = os.environ | {"PYTHONPATH": str(package), "LPLAB_PROGRESS": str(tmp_path / "progress.json")}
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", *sorted(map(str, folder.iterdir()))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(folder.glob("*.html"))) == 2
