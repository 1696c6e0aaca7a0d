"""Make the site of lplab and serve it at the loopback address; `python3 start.py site` runs this.

The labs are executed, each in a kernel of its own, and the page of the exercises is made from them; both are kept until
they, the library or its data change. Then Sphinx makes the pages of docs/ and labs/, the reference from the docstrings,
and a page for each file of the repository that a page leads to. Everything is made in build/site; build/site/html is
the site.
"""

import argparse
import ast
import functools
import hashlib
import http.server
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from build_lite import build_lite
from drawings import as_svg

ROOT = Path(__file__).resolve().parents[2]
DOCS, STATIC = ROOT / "docs", ROOT / "lplab/widgets/static"
LABS = sorted((ROOT / "labs").glob("[0-9][0-9]_*.ipynb"))
PACKAGES = (
    *("formats", "arithmetic", "quantizers", "compression", "datasets", "recordings", "models", "training"),
    *("training.recipes", "training.tasks", "parallel"),
    *("hardware", "hardware.accelerators", "hardware.compute", "hardware.network", "hardware.precisions"),
    *("hardware.workloads", "hardware.footprint", "hardware.footprint.runs"),
    *("claims", "figures", "figures.style", "widgets", "exercises"),
)
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".js": "javascript", ".css": "css", ".yml": "yaml"}
HERO = ("e4m3fn", "e5m2", "e2m1", "hfp8_forward", "posit8_1", "fp16", "bf16")  # formats of the first page
SECTIONS = {  # pages of the bar at the top: title, a sentence, and the pages below it
    "howto": ("How to", "From a tensor of yours to a cluster that you do not own.",
        "docs/quantize docs/gpu docs/own_network docs/fp8_training docs/outside_models docs/learners "
        "docs/compress_training docs/clusters docs/measure_claims docs/capstone docs/teaching docs/front_ends"),
    "api/index": ("Reference", "Every public name, made from its docstring; and the words of the course.",
        " ".join(f"api/{name}" for name in PACKAGES) + " docs/glossary docs/exactness"),
    "results": ("Results", "What the papers state, and what we measured.", "docs/claims docs/numbers"),
    "project": ("Project", "How lplab is made, and how to change it.",
        "docs/contributing docs/architecture docs/exercises"),
}  # fmt: skip
SECONDS = 300  # that a cell may take
RUN_ALL = re.compile(r"^\*Choose Run → Run All Cells first.*\*$", re.MULTILINE)
SETUP = "import sys; sys.path.insert(0, {!r}); import recorded; recorded.install()"


# ---- labs ------------------------------------------------------------------------------------------------------------


def library_and(*files: Path) -> str:
    """A hash of these files, the library and its data: what was made of them is kept until one of them changes."""
    read = [*(ROOT / "lplab").rglob("*.py"), *(path for path in (ROOT / "data").rglob("*") if path.is_file())]
    digest = hashlib.sha256()
    for path in (*files, *sorted(read)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def executed(lab: Path, cache: Path) -> dict[str, Any]:
    """A lab with what its cells show on a page; it runs unless it did for this lab, this library and these data."""
    import nbformat
    from nbclient import NotebookClient

    kept = cache / f"{lab.stem}-{library_and(lab, Path(__file__).with_name('recorded.py'))}.ipynb"
    if not kept.exists():
        began = time.monotonic()
        notebook = nbformat.read(lab, as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP.format(str(Path(__file__).parent))))
        progress = cache / f"{lab.stem}.progress.json"
        for old in cache.glob(f"{lab.stem}[.-]*"):
            old.unlink()
        env = {**os.environ, "LPLAB_PROGRESS": str(progress), "OMP_NUM_THREADS": "1"}
        where = {"metadata": {"path": str(lab.parent)}}
        options = {"timeout": SECONDS, "kernel_name": "python3", "resources": where, "store_widget_state": False}
        NotebookClient(notebook, **options).execute(env=env)
        notebook.cells.pop(0)
        nbformat.write(notebook, kept)
        print(f"{lab.stem}: {time.monotonic() - began:.0f} s", flush=True)
    return json.loads(kept.read_text("utf-8"))  # type: ignore[no-any-return]


def exercises_page(cache: Path) -> str:
    """The page of all exercises as Markdown, for which each known mistake is judged; kept until the library changes."""
    kept = cache / f"exercises-{library_and()}.md"
    if not kept.exists():
        began = time.monotonic()
        command = [sys.executable, "-m", "lplab", "exercises", "--all"]
        text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8").stdout
        for old in cache.glob("exercises-*"):
            old.unlink()
        kept.write_text(text, "utf-8")
        print(f"exercises: {time.monotonic() - began:.0f} s", flush=True)
    return kept.read_text("utf-8")


def on_a_page(book: dict[str, Any], name: str, lite: bool = False) -> dict[str, Any]:
    """A lab as a page: its code folded, but for the exercises, and without what only a kernel can use."""
    book["metadata"].pop("widgets", None)
    note = (
        f":::{{note}}\nYou are reading this lab. To move all its controls and to solve its exercises, open it: "
        f"`python3 start.py`, then *labs/{name}*, then Run → Run All Cells."
        f"{open_elsewhere(name)}{open_in_a_browser(name) if lite else ''}\n:::"
    )
    first = book["cells"][0]
    text = "".join(first["source"])
    first["source"] = RUN_ALL.sub(note, text) if RUN_ALL.search(text) else f"{text}\n\n{note}"
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = rewritten("".join(cell["source"]), Path("labs"))
            continue
        source = "".join(cell["source"])
        tags = cell["metadata"].setdefault("tags", [])
        if source.startswith("progress_of("):
            tags.append("remove-cell")
        elif re.search(r"^check\(", source, re.MULTILINE):
            cell["outputs"] = []  # that it is not written yet
        elif "hide-input" not in tags:
            tags.append("hide-input")
    return book


def open_elsewhere(name: str) -> str:
    """A sentence with the lab's address on Binder, where LPLAB_REPOSITORY ("owner/name" on GitHub) says which."""
    repository = os.environ.get("LPLAB_REPOSITORY")
    address = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/labs/{name}"
    return f" Or open it [on Binder]({address}), which takes some minutes." if repository else ""


def open_in_a_browser(name: str) -> str:
    """A sentence with the lab's address in the edition for browsers."""
    link = f'<a href="../lite/lab/index.html?path={name}">in this browser</a>'
    return f" Or open it {link}, without an installation: live trainings need PyTorch and are left out there."


# ---- pages -----------------------------------------------------------------------------------------------------------

_files: set[Path] = set()  # of the repository, that pages lead to


def is_page(path: Path) -> bool:
    """Whether a file, relative to the repository, has a page of its own."""
    return path.parts[0] in ("docs", "labs") and path.suffix in (".md", ".ipynb", ".svg", ".png")


def rewritten(text: str, folder: Path, at: Path | None = None) -> str:
    """Markdown in which links to files that are no pages lead to pages that show them.

    Args:
        text: of a file in ``folder``, relative to the repository.
        folder: that its links start from.
        at: the folder of its page, if another.
    """

    def link(found: re.Match[str]) -> str:
        target, _, place = found[1].partition("#")
        path = (ROOT / folder / target).resolve()
        if not target or not path.exists() or not path.is_relative_to(ROOT):
            return found[0]
        inside = path.relative_to(ROOT)
        if not is_page(inside):
            _files.add(inside)
            inside, place = Path("files", f"{inside}.md"), ""
        address = Path(os.path.relpath(inside, at or folder)).as_posix()
        return f"]({address}{'#' if place else ''}{place})"

    return re.sub(r"\]\((?!https?:|mailto:|/)([^)\s]+)\)", link, text)


def file_page(path: Path) -> str:
    """The page that shows a file, or what is in a folder."""
    whole = ROOT / path
    if whole.is_dir():
        inside = [each.relative_to(ROOT) for each in sorted(whole.iterdir()) if each.name[0] not in "._"]
        return f"# {path}/\n\n" + "".join(f"- `{each.name}{summary(ROOT / each)}\n" for each in inside)
    text = whole.read_text("utf-8")
    if path.suffix == ".md":
        return rewritten(text, path.parent, Path("files") / path.parent)
    return f"# {path}\n\n`````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n`````\n"


def summary(path: Path) -> str:
    """What stands behind a name in a folder's list: the end of the name, and of a module its first line."""
    if path.is_dir():
        return "/`"
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.suffix == ".py" else ""
    return "`" + (f": {doc.splitlines()[0]}" if doc else "")


def reference(name: str) -> str:
    """The page of a package's public names."""
    module = pkgutil.resolve_name(f"lplab.{name}")  # as users write it
    above = name.rpartition(".")[0]
    shown = set(getattr(pkgutil.resolve_name(f"lplab.{above}"), "__all__", ())) if above in PACKAGES else set()
    public = [
        each
        for each in getattr(module, "__all__", ())
        if not isinstance(getattr(module, each), ModuleType) and each not in shown  # on the page of the package above
    ]
    members = f":members: {', '.join(public)}\n   :imported-members:" if public else ":members:"
    directive = f".. automodule:: {module.__name__}\n   {members}\n   :show-inheritance:\n"
    return f"# lplab.{name}\n\n```{{eval-rst}}\n{directive}```\n"


def hero() -> str:
    """The formats that the first page's panel of bits shows, as HTML; docs/_static/recorded.js draws it."""
    from lplab import formats
    from lplab.widgets.bit_panel import spec_of, table_of

    chosen = {name: formats.get(name) for name in HERO}
    data = {
        name: {"format_spec": spec_of(f), "table": table_of(f).hex(), "pattern": int(f.encode(0.3)), "note": {}}
        for name, f in chosen.items()
    }
    return f"<div class='lp-hero'><script type='application/json'>{json.dumps({'formats': data})}</script></div>"


def mechanism(name: str) -> str:
    """A mechanism of a lab, as HTML."""
    from recorded import slot

    from lplab.widgets.mechanisms import MECHANISMS

    return slot("mechanism", MECHANISMS[name].content())


def gallery() -> str:
    """A card for each lab of the course's map: its picture, its title, its question and its minutes."""
    row = r"^\| (\d\d) \| \[(.+?)\]\((.+?)\.ipynb\) \| (.+?) \| (\d+) \|"
    rows = re.findall(row, (ROOT / "labs/README.md").read_text("utf-8"), re.MULTILINE)
    cards = "".join(
        f":::{{grid-item-card}} {number} · {title}\n:link: /labs/{name}\n:link-type: doc\n"
        f":img-top: /docs/pictures/lab{number}.png\n:img-alt: {question}\n{question}\n\n{minutes} minutes\n:::\n"
        for number, title, name, question, minutes in rows
    )
    return f"::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{cards}::::\n"


def download(file: Path) -> str:
    """How to get lplab: a link to all files of the repository, which git packs into ``file``.

    Where LPLAB_REPOSITORY says which repository on GitHub it is, the link leads there, and nothing is packed.
    """
    if repository := os.environ.get("LPLAB_REPOSITORY"):
        return f"[Download the repository](https://github.com/{repository})"
    command = ["git", "archive", "--format=zip", "--prefix=lplab/", f"--output={file}", "HEAD"]
    try:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):  # not a clone, or no git
        return "Download the repository"
    return f"<a href='{file.name}' download>Download lplab</a> ({file.stat().st_size / 1e6:.0f} MB) and unpack it"


def toctree(pages: Iterable[str]) -> str:
    """A list of pages, as Sphinx reads it."""
    return "\n:::{toctree}\n:maxdepth: 1\n\n" + "".join(f"/{page}\n" for page in pages) + ":::\n"


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def stage(source: Path, books: dict[Path, dict[str, Any]], exercises: str, lite: bool = False) -> None:
    """Write what Sphinx reads: the same folders as in the repository, so that links between pages hold."""
    _files.clear()
    shutil.rmtree(source, ignore_errors=True)
    for lab, book in books.items():
        write(source / "labs" / lab.name, json.dumps(on_a_page(book, lab.name, lite)))
    for path in (*DOCS.glob("*.md"), ROOT / "labs/README.md"):
        inside = path.relative_to(ROOT)
        text = rewritten(path.read_text("utf-8"), inside.parent)
        text = re.sub(r"^```mermaid\n(.*?)^```$", lambda found: as_svg(found[1]), text, flags=re.DOTALL | re.MULTILINE)
        if path.name == "README.md":
            text += toctree(f"labs/{lab.stem}" for lab in LABS).replace(":maxdepth: 1", ":hidden:")
        if path.name == "index.md":
            made = {"hero": hero(), "gallery": gallery(), "download": download(source / "lplab.zip")}
            for name, content in made.items():
                text = text.replace(f"<!-- {name} -->", content)
            text = re.sub(r"<!-- mechanism (\w+) -->", lambda found: mechanism(found[1]), text)
            write(source / "index.md", text)
        else:
            write(source / inside, text)
    for path in (*DOCS.glob("*.svg"), *DOCS.glob("pictures/*"), DOCS / "fp8_training.py"):
        (source / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, source / path.relative_to(ROOT))
    write(source / "docs/exercises.md", exercises)
    for name in PACKAGES:
        write(source / f"api/{name}.md", reference(name))
    for name, (title, sentence, pages) in SECTIONS.items():
        write(source / f"{name}.md", f"# {title}\n\n{sentence}\n{toctree(pages.split())}")
    done: set[Path] = set()
    while new := _files - done:
        for path in new:
            target = source / "files" / f"{path}.md"
            write(target, f"---\norphan: true\n---\n{file_page(path)}")
        done |= new


def stage_scripts(static: Path) -> None:
    """Put plotly's script, once for the whole site, and the parts of lplab's widgets where pages find them."""
    import plotly

    from lplab.widgets.controls import script
    from lplab.widgets.glossary_words import words
    from lplab.widgets.mechanisms import MECHANISMS

    shutil.rmtree(static, ignore_errors=True)
    static.mkdir(parents=True)
    shutil.copy(Path(plotly.__file__).parent / "package_data/plotly.min.js", static)
    (static / "bits.js").write_text(script("bits.js"), "utf-8")
    for name in ("figure_parts.js", "bits.css", "live_figure.css", "glossary_words.js", "glossary_words.css"):
        shutil.copy(STATIC / name, static)
    write(static / "words.js", f"export const words = {json.dumps(words(), ensure_ascii=False)};\n")
    for mechanism in MECHANISMS.values():
        write(static / f"mechanisms/{mechanism.name}.js", mechanism.script)
    shutil.copy(STATIC.parent / "mechanisms/frame.css", static / "mechanisms.css")


# ---- all of it -------------------------------------------------------------------------------------------------------


def build(folder: Path, run: list[Path], workers: int, lite: bool = False) -> Path:
    """Make the site in a folder, with these labs executed and the others with their stored outputs.

    With ``lite`` the edition for browsers stands beside the pages, where it can be made.

    Returns:
        The folder of the pages.

    Raises:
        RuntimeError: Sphinx could not make the pages.
    """
    from sphinx.cmd.build import main as sphinx

    cache = folder / "labs"
    cache.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(workers) as pool:
        exercises = pool.submit(exercises_page, cache)
        done = dict(zip(run, pool.map(lambda lab: executed(lab, cache), run), strict=True))
    edition = build_lite(folder / "lite") if lite else None
    books = {lab: done.get(lab) or json.loads(lab.read_text("utf-8")) for lab in LABS}
    stage(folder / "source", books, exercises.result(), lite=edition is not None)
    stage_scripts(folder / "static")
    os.environ["LPLAB_SITE_STATIC"] = str(folder / "static")
    options = ["-q", "-b", "html", "-c", str(DOCS), "-d", str(folder / "doctrees")]
    shutil.rmtree(folder / "html", ignore_errors=True)
    if sphinx([*options, str(folder / "source"), str(folder / "html")]):
        raise RuntimeError("Sphinx could not make the pages; its lines above say why")
    if (packed := folder / "source/lplab.zip").exists():
        shutil.copy(packed, folder / "html")
    if edition:
        shutil.copytree(edition, folder / "html/lite")
    return folder / "html"


def serve(pages: Path, port: int, browser: bool) -> None:
    """Serve the pages at the loopback address until Ctrl-C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(pages))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"The site is at {address}; Ctrl-C ends it.", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main() -> int:
    """Make the site, and serve it unless only its pages are wanted."""
    parser = argparse.ArgumentParser(
        "start.py site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python3 start.py site --build-only",
    )  # fmt: skip
    parser.add_argument("--build-only", action="store_true", help="make the pages in build/site/html, serve nothing")
    parser.add_argument("--labs", metavar="00,01", help="execute these alone, the others have their stored outputs")
    parser.add_argument("--lite", action="store_true", help="and the labs for a browser alone, with JupyterLite")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/site", help="to make it in (default: build/site)")
    parser.add_argument("--port", type=int, default=8800, help="of the loopback address (default: 8800; 0: any free)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, only print the address")
    args = parser.parse_args()
    began = time.monotonic()
    run = LABS if args.labs is None else [lab for lab in LABS if lab.name[:2] in args.labs.split(",")]
    pages = build(args.folder.resolve(), run, min(4, os.cpu_count() or 1), args.lite)
    size = sum(path.stat().st_size for path in pages.rglob("*") if path.is_file())
    print(f"{pages}: {size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s", flush=True)
    if not args.build_only:
        serve(pages, args.port, browser=not args.no_browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
