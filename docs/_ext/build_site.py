"""Make the site of lplab and serve it at the loopback address; `python3 start.py site` runs this.

The labs are executed, each in a kernel of its own, with our solutions of the exercises; their explorers are recorded
(docs/_ext/recorded.py). The page of the exercises is made from them. Both are kept until they, the library or its data
change. Then Sphinx makes the pages of docs/ and labs/, the reference from the docstrings, and a page for each file of
the repository that a page leads to. Everything is made in build/site; build/site/html is the site.
"""

import argparse
import ast
import base64
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
import tarfile
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
        "docs/teaching docs/hub docs/quantize docs/gpu docs/own_network docs/quantize_language_model docs/fp8_training "
        "docs/outside_models docs/learners docs/compress_training docs/clusters docs/measure_claims docs/capstone "
        "docs/front_ends"),
    "api/index": ("Reference", "Every public name, made from its docstring; and the words of the course.",
        " ".join(f"api/{name}" for name in PACKAGES) + " docs/glossary docs/exactness"),
    "results": ("Results", "What the papers state, and what we measured.", "docs/claims docs/numbers docs/baselines"),
    "project": ("Project", "How lplab is made, and how to change it.",
        "docs/contributing docs/architecture docs/exercises cite"),
}  # fmt: skip
FINDINGS = ("wang_2018", "gupta_2015_updates", "sun_2020_radix4", "scalecom_2020_traffic", "hfp8_2019_distributed")
COLAB = "colab"  # a folder of the site, and the branch of the repository into which its workflow puts that folder
SECONDS = 1200  # that a cell may take: a recording is a minute of work, on a busy machine many minutes
RUN_ALL = re.compile(r"^\*Choose Run → Run All Cells first(?:\. (.+)|[.:].*)\*$", re.MULTILINE)
HEAD_ONLY = re.compile(
    r"^\*\*[\d–]+ · |^\*About \d+ minutes|: you are here\*\*"
)  # of a notebook, said otherwise on a page
MECHANISM = re.compile(r"widgets\.mechanism\(\"(\w+)\"\)")
CHECK = re.compile(r"^check\(\"([\d.]+)\", (\w+)\)", re.MULTILINE)
FOLD = "<details>\n<summary>{}</summary>\n\n{}\n\n</details>\n\n"
OURS = "Drawn with our solution. In the lab it is drawn with yours."
RECORDING = re.compile(r"<div class='lp-recorded'>(.*?)<script type='application/gzip'>(.*?)</script></div>", re.DOTALL)
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
    """A lab with what its cells show on a page; it runs unless it did for this lab, this library and these data.

    Exercises run with our solutions, so that what needs them is drawn.
    """
    import nbformat
    from nbclient import NotebookClient

    from lplab.exercises.model import exercise_catalogue

    ours = (Path(__file__).with_name(name) for name in ("recorded.py", "moves.py"))
    kept = cache / f"{lab.stem}-{library_and(lab, *ours)}.ipynb"
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
        sources = [cell.source for cell in notebook.cells]
        for cell in notebook.cells:
            cell.source = CHECK.sub(lambda found: exercise_catalogue.get(found[1]).solution, cell.source)
        NotebookClient(notebook, **options).execute(env=env)
        for cell, source in zip(notebook.cells, sources, strict=True):
            cell.source = source
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


def on_a_page(book: dict[str, Any], name: str, recordings: Path, lite: bool = False) -> dict[str, Any]:
    """A lab as a page: its code folded, but for the exercises, without what only a kernel can use.

    What was recorded of its explorers becomes files in the folder ``recordings``.
    """
    book["metadata"].pop("widgets", None)
    sources = ["".join(cell["source"]) for cell in book["cells"]]
    solved = {found[2] for source in sources for found in CHECK.finditer(source)}
    outputs = json.dumps([cell.get("outputs", []) for cell in book["cells"]])
    moving = [found[1] for source in sources if (found := MECHANISM.search(source))]
    moving = [own for own in moving if f'id=\\"mechanism-{own}\\"' in outputs]  # not where the lab was not run
    book["cells"][0]["source"] = first_screen(sources, name, moving, lite)
    for cell, source in zip(book["cells"], sources, strict=True):
        if cell["cell_type"] == "markdown":
            cell["source"] = rewritten("".join(cell["source"]), Path("labs"))
            continue
        without_recordings(cell, Path(name).stem, recordings)
        tags = cell["metadata"].setdefault("tags", [])
        if source.startswith("progress_of("):
            tags.append("remove-cell")
        elif CHECK.search(source):
            cell["outputs"] = []  # what our own solution makes of it
        else:
            cell["outputs"] = [each for each in cell["outputs"] if not is_waiting(each)]
            if cell["outputs"] and any(re.search(rf"\b{each}\b", source) for each in solved):
                cell["outputs"].append(html_output(f"<p class='lp-note'>{OURS}</p>"))
            if "hide-input" not in tags:
                tags.append("hide-input")
    return book


def is_waiting(output: dict[str, Any]) -> bool:
    """Whether an output is a line about what will be drawn once somebody has solved an exercise."""
    return "will be drawn" in "".join(output.get("data", {}).get("text/plain", ""))


def html_output(text: str) -> dict[str, Any]:
    """An output of a cell that is HTML."""
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": text, "text/plain": ""}}


def first_screen(sources: list[str], name: str, moving: list[str], lite: bool) -> str:
    """The first cell of a lab as a page begins with it: minutes, what to know before, the question, what moves below.

    Args:
        sources: of the lab's cells.
        name: of its file.
        moving: the names of its mechanisms.
        lite: whether there is an edition for browsers.
    """
    from lplab.widgets.mechanisms import MECHANISMS

    title, *paragraphs = sources[0].split("\n\n")
    number, question, minutes = next(row for row in course_map() if row[0] == name[:2])
    before = "a little Python" if number < "02" else "[Lab 01](01_few_bits_many_decisions.ipynb)"
    first = f"{minutes} minutes · to know before: {before} · *{question}*"
    links = [f'<a href="#mechanism-{own}">{MECHANISMS[own].title}</a>' for own in moving]
    below = [f"Try it below: {' · '.join(links)}"] if links else []
    texts = [RUN_ALL.sub(lambda found: f"*{found[1]}*" if found[1] else "", text) for text in paragraphs]
    texts = [text for text in texts if text.strip() and not HEAD_ONLY.search(text)]
    how = (
        f"You are reading this lab. To solve its exercises and run its trainings, open it: `python3 start.py`, then "
        f"*labs/{name}*, then Run → Run All Cells.{open_elsewhere(name)}{open_in_a_browser(name) if lite else ''}"
    )
    return "\n\n".join([title, first, *below, *texts, f"{{.lp-open}}\n{how}"])


@functools.cache
def course_map() -> list[tuple[str, str, str]]:
    """Number, question and minutes of each lab, from the map of the course."""
    rows = r"^\| (\d\d) \| \[.+?\]\(.+?\) \| (.+?) \| (\d+) \|"
    return re.findall(rows, (ROOT / "labs/README.md").read_text("utf-8"), re.MULTILINE)


def without_recordings(cell: dict[str, Any], stem: str, folder: Path) -> None:
    """Write what was recorded of a cell's explorers into files: a page loads one when its explorer comes into view."""

    def kept(found: re.Match[str]) -> str:
        data = base64.b64decode(found[2])
        name = f"{stem}-{hashlib.sha256(data).hexdigest()[:8]}.json.gz"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        return f"<div class='lp-recorded' data-recording='{name}'>{found[1]}</div>"

    for output in cell["outputs"]:
        if "text/html" in output.get("data", {}):
            text = "".join(output["data"]["text/html"])
            output["data"]["text/html"] = RECORDING.sub(kept, text)


def open_elsewhere(name: str) -> str:
    """A sentence with the lab's addresses, where LPLAB_REPOSITORY ("owner/name" on GitHub) says which they are."""
    repository = os.environ.get("LPLAB_REPOSITORY")
    if not repository:
        return ""
    binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/labs/{name}"
    colab = f"https://colab.research.google.com/github/{repository}/blob/{COLAB}/{name}"
    return (
        f" Or open it [in Colab]({colab}), or [on Binder]({binder}), which takes some minutes, or "
        f'<a href="../{COLAB}/{name}" download>download it</a> as one file for Colab.'
    )


def files_for_colab(folder: Path) -> None:
    """Write each lab as one file for Colab, where LPLAB_REPOSITORY says from which repository it installs lplab.

    The links of these files lead to the site, whose address LPLAB_SITE gives (default: the pages of the repository).
    """
    repository = os.environ.get("LPLAB_REPOSITORY")
    if not repository:
        return
    from lplab.exercises.grading.single_files import write_single_files

    owner, name = repository.split("/")
    site = os.environ.get("LPLAB_SITE") or f"https://{owner.lower()}.github.io/{name}"
    package = f"lplab[colab] @ git+https://github.com/{repository}"
    write_single_files(folder, [lab.name[:2] for lab in LABS], "colab", site, package)


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

    def picture(found: re.Match[str]) -> str:  # in HTML, which Sphinx leaves as it is
        return f'{found[1]}="{os.path.relpath("_static", at or folder)}/{Path(found[2]).name}"'

    text = re.sub(r'\b(src|srcset)="(docs/[\w.]+)"', picture, text)
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


def findings() -> str:
    """Five claims whose numbers here are plain, each with one sentence of what was found and the figure of its card."""
    from lplab import claims, figures

    parts = []
    for name in FINDINGS:
        claim, card = claims.get(name), figures.verdict_card(name)._repr_html_()
        style, picture = (re.search(rf"<{tag}\b.*?</{tag}>", card, re.DOTALL)[0] for tag in ("style", "figure"))  # type: ignore[index]
        sentence = claims.row(claim)["findings"][0]["sentence"]
        found = f"<div class='lplab-cards'>{style}<div class='lplab-card'>{picture}</div></div>"
        parts.append(f"## {claim.title}\n\n{sentence} [All of it](/docs/claims.md#{name})\n\n{found}\n\n")
    return "".join(parts)


def folded_claims(text: str) -> str:
    """The page of the claims with its introduction, and each claim's numbers, folded behind a line."""
    head, counts, rest = re.split(r"^(Of \d+ claims: .*)$", text, maxsplit=1, flags=re.MULTILINE)
    title, _, words = head.partition("\n\n")
    table, sections = rest.split("## The claims one by one", 1)

    def one(found: re.Match[str]) -> str:
        verdicts = " ".join(line.strip("*") for line in found[2].split("\n\n"))
        return found[1] + FOLD.format(verdicts.strip(), found[3].strip())

    section = r"(^### .+?\n\n)((?:\*\*[^\n]+\*\*\n\n)+)(.*?)(?=^<a id=\"\w+\"></a>\n\n### |\Z)"  # one verdict, or two
    folded = re.sub(section, one, sections, flags=re.DOTALL | re.MULTILINE)
    how = FOLD.format("How to read this page", words.strip())
    return f"{title}\n\n{counts}\n\n{how}{table}## The claims one by one{folded}"


def folded_exercises(text: str) -> str:
    """The page of the exercises with each one's examples and known mistakes folded behind a line."""
    checked = re.compile(r"^Named examples:\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    return checked.sub(lambda found: FOLD.format("What is checked, and the known mistakes", found[0].strip()), text)


def citation() -> str:
    """How to cite lplab, from CITATION.cff: a sentence, and an entry for BibTeX."""
    import yaml

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    authors = " and ".join(f"{{{each['name']}}}" for each in cited["authors"])
    entry = [f"title = {{{cited['title']}}}", f"author = {{{authors}}}", f"version = {{{cited['version']}}}"]
    if repository := os.environ.get("LPLAB_REPOSITORY"):
        entry.append(f"url = {{https://github.com/{repository}}}")
    lines = ",\n  ".join(["@software{lplab", *entry])
    return f"# How to cite\n\n{cited['message']}\n\n```text\n{lines}\n}}\n```\n"


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


def stage(source: Path, static: Path, books: dict[Path, dict[str, Any]], exercises: str, lite: bool = False) -> None:
    """Write what Sphinx reads: the same folders as in the repository, so that links between pages hold."""
    _files.clear()
    shutil.rmtree(source, ignore_errors=True)
    for lab, book in books.items():
        write(source / "labs" / lab.name, json.dumps(on_a_page(book, lab.name, static / "recordings", lite)))
    for path in (*DOCS.glob("*.md"), ROOT / "labs/README.md"):
        inside = path.relative_to(ROOT)
        text = rewritten(path.read_text("utf-8"), inside.parent)
        text = re.sub(r"^```mermaid\n(.*?)^```$", lambda found: as_svg(found[1]), text, flags=re.DOTALL | re.MULTILINE)
        if path.name == "claims.md":
            text = folded_claims(text)
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
    for path in (*DOCS.glob("*.webp"), *DOCS.glob("*.png")):  # of the README
        shutil.copy(path, static)
    write(source / "docs/exercises.md", folded_exercises(exercises))
    for name in PACKAGES:
        write(source / f"api/{name}.md", reference(name))
    for name, (title, sentence, pages) in SECTIONS.items():
        more = findings() if name == "results" else ""
        write(source / f"{name}.md", f"# {title}\n\n{sentence}\n\n{more}{toctree(pages.split())}")
    write(source / "cite.md", citation())
    _files.add(Path("LICENSE"))
    done: set[Path] = set()
    while new := _files - done:
        for path in new:
            target = source / "files" / f"{path}.md"
            write(target, f"---\norphan: true\n---\n{file_page(path)}")
        done |= new


def plotly_script(cache: Path) -> Path:
    """Plotly's script, of the version that Python has: from npm the part that draws on two axes, else all of it.

    The part has a third of the size. npm is asked once; ``cache`` keeps what came.
    """
    import plotly
    from plotly.offline import get_plotlyjs_version

    package = f"plotly.js-cartesian-dist-min@{get_plotlyjs_version()}"
    kept = cache / f"{package}.js"
    if kept.exists():
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    whole = Path(plotly.__file__).parent / "package_data/plotly.min.js"
    if not (npm := shutil.which("npm")):
        print(f"no npm: pages load the whole plotly ({whole.stat().st_size / 1e6:.1f} MB)", flush=True)
        return whole
    command = [npm, "pack", "--silent", "--fetch-retries=0", f"--pack-destination={cache}", package]
    try:
        name = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=60, cwd=cache
        ).stdout.split()[-1]
        with tarfile.open(cache / name) as archive:
            content = archive.extractfile("package/plotly-cartesian.min.js").read()  # type: ignore[union-attr]
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        print(f"npm has no {package} for us ({type(error).__name__}): pages load the whole plotly", flush=True)
        return whole
    kept.write_bytes(content)
    (cache / name).unlink()
    return kept


def stage_scripts(static: Path) -> None:
    """Put the parts of lplab's widgets where pages find them."""
    from lplab.widgets.controls import script
    from lplab.widgets.glossary_words import words
    from lplab.widgets.mechanisms import MECHANISMS

    shutil.rmtree(static, ignore_errors=True)
    static.mkdir(parents=True)
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
    stage_scripts(folder / "static")
    shutil.copy(plotly_script(folder / "npm"), folder / "static/plotly.min.js")
    stage(folder / "source", folder / "static", books, exercises.result(), lite=edition is not None)
    os.environ["LPLAB_SITE_STATIC"] = str(folder / "static")
    options = ["-q", "-b", "html", "-c", str(DOCS), "-d", str(folder / "doctrees")]
    shutil.rmtree(folder / "html", ignore_errors=True)
    if sphinx([*options, str(folder / "source"), str(folder / "html")]):
        raise RuntimeError("Sphinx could not make the pages; its lines above say why")
    if (packed := folder / "source/lplab.zip").exists():
        shutil.copy(packed, folder / "html")
    files_for_colab(folder / "html" / COLAB)
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
