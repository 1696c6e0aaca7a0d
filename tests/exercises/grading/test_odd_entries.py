"""One odd entry in the folder of a class, in its roster or its metadata: the rows of all others stay as they are."""

import csv
import functools
import json
import os
import tempfile
from pathlib import Path, PurePath
from unicodedata import normalize

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lplab import cli
from lplab.exercises.grading import grading, marks_files
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.handed_in import PASSED_OVER_PREFIXES
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.marks_files import distinct_names, write_marks
from lplab.exercises.grading.owners import Owners
from lplab.exercises.grading.roster import read_roster
from lplab.exercises.grading.submissions import clean
from tests.exercises.grading.test_school import BOTH, ONE, WRONG, notebook, put
from tests.exercises.in_process import judge_here

needs_links = pytest.mark.skipif(os.name == "nt", reason="links need rights there")
REPORT = (
    '{"lplab_report": 1, "name": %s, "exercises": [{"id": "00.1", "function": "f", "latest": "def f(a, b): pass"}]}'
)
CLASSES = {  # three students in each form of a class, and the folder of a fourth one
    "files": (["ada.ipynb", "Zoë Li.ipynb", "cid.json"], "eve"),
    "folders": (["ada/a.ipynb", "Zoë Li/a.ipynb", "cid/deep/er/a.ipynb"], "eve"),
    "moodle": (
        [f"{name}_{number}_assignsubmission_file_/a.ipynb" for number, name in enumerate(["ada", "Zoë Li", "cid"], 11)],
        "eve_14_assignsubmission_file_",
    ),
    "canvas": (["ada_11_501_a.ipynb", "lizoë_12_502_a.ipynb", "cid_LATE_13_503_a.ipynb"], "eve"),
    "gradescope": ([f"submission_{number}/a.ipynb" for number in (1, 2, 3)], "submission_4"),
}
METADATA = "".join(
    f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :sid: s{number}\n"
    for number, name in enumerate(["ada", "Zoë Li", "cid"], 1)
)
ROSTER = 'name,id\nada,s1\n"Li, Zoë",s2\ncid,s3\n'
JOURNAL = Journal(None)  # each answer is judged once in all classes


def marks_in(folder, out, roster=None):
    """The students in marks.json by their files, after a look at all other files."""
    known = read_roster(roster) if roster else None
    files = write_marks(grade(folder, ["00"], jobs=1, judged_by=judge_here, roster=known, journal=JOURNAL), out)
    students = json.loads((out / "marks.json").read_text("utf-8"))["students"]
    assert all(file.is_file() for file in files) and not list(out.rglob("*.part"))
    assert (out / "overview.html").read_text("utf-8").rstrip().endswith("</html>")
    for name in ("marks.csv", "details.csv"):
        rows = list(csv.DictReader((out / name).open(encoding="utf-8-sig", newline="")))
        assert len(rows) == len(students) * (1 if name == "marks.csv" else 3)
    assert len(list((out / "gradescope").iterdir())) == sum(not student["absent"] for student in students)
    return {student["file"]: student for student in students if student["file"]}


def make_class(folder, form):
    files, own = CLASSES[form]
    put(folder, **dict(zip(files, (BOTH, notebook(WRONG), ONE), strict=True)))
    if form == "gradescope":
        put(folder, **{"submission_metadata.yml": METADATA})
    return folder / own


@functools.cache
def marks_without(form, with_roster):
    """The marks of a class without an odd entry."""
    with tempfile.TemporaryDirectory() as name:
        make_class(Path(name, "class"), form)
        put(Path(name), **{"r.csv": ROSTER})
        return marks_in(Path(name, "class"), Path(name, "out"), Path(name, "r.csv") if with_roster else None)


# ---- any entry -------------------------------------------------------------------------------------------------------

ENDINGS = ["", ".ipynb", ".json", ".txt", ".ipynb.txt", ".zip", ".html", ".png", ".IPYNB", ".ipynb~", " (1).ipynb"]
names = st.one_of(
    st.binary(min_size=1, max_size=120).map(lambda raw: os.fsdecode(raw.replace(b"/", b"-").replace(b"\0", b"-"))),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.sampled_from(["ada", "ADA", ".", "Zoe\u0308 Li", "Zoe Li", "cid", "..", "con", "-", "=1+1", "submitted",
                     "timestamp", "𠮷" * 60, "week_10_2_x", "x_19_599_y", "x_19_assignsubmission_file_", "a\nb",
                     ".git", "._ada"]),
).flatmap(lambda stem: st.sampled_from(ENDINGS).map(lambda ending: stem + ending))  # fmt: skip
KEYS = ["cells", "nbformat", "lplab_report", "source", "cell_type", "name", "exercises", "id"]
objects = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from(KEYS), some, max_size=4),
)
texts = [BOTH, ONE, "{", "[]", "PK\x03\x04", "", "\ufeff" + ONE, REPORT % '"ada"', REPORT % f'"{"𠮷" * 80}"']
contents = st.one_of(
    st.sampled_from(texts).map(str.encode),
    st.sampled_from(["utf-16", "utf-32", "utf-8-sig"]).map(ONE.encode),
    st.binary(max_size=60),
    objects.map(lambda value: json.dumps(value).encode()),
)
kinds = st.sampled_from(["file"] * 6 + ["ring", "link to the class", "link to ada", "link to nowhere", "device", "pipe",
                                        "folder", "closed file", "closed folder", "large"])  # fmt: skip


def make_entry(path, kind, content, folder):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind.startswith(("ring", "link", "device")):
        targets = {"ring": path.name, "link to the class": folder, "link to ada": next(iter(folder.iterdir()))}
        path.symlink_to(targets.get(kind, "/dev/zero" if kind == "device" else "nowhere"))
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind.endswith("folder"):
        path.mkdir()
        (path / "x.ipynb").write_bytes(content)
        path.chmod(0 if kind.startswith("closed") else 0o700)
    else:
        path.write_bytes(content)
        path.chmod(0 if kind.startswith("closed") else 0o600)
        if kind == "large":
            os.truncate(path, 2**33)


@needs_links
@pytest.mark.slow
@settings(max_examples=500)
@given(st.sampled_from(sorted(CLASSES)), st.booleans(), st.booleans(), names, kinds, contents)
def test_no_entry_changes_the_row_of_another_student(form, with_roster, in_own_folder, name, kind, content):
    assume(name not in (".", ".."))
    with tempfile.TemporaryDirectory() as top:
        folder, roster = Path(top, "class"), Path(top, "r.csv")
        own = make_class(folder, form)
        put(Path(top), **{"r.csv": ROSTER})
        path = (own if in_own_folder else folder) / name
        assume(len(os.fsencode(name)) < 255 and not os.path.lexists(path))
        owner = Owners(folder).of(path.relative_to(folder))
        assume(not with_roster or read_roster(roster).place_of(owner)[0] is None)  # else it is a classmate's own file
        make_entry(path, kind, content, folder)
        found = marks_in(folder, Path(top, "out"), roster if with_roster else None)
        for file, student in marks_without(form, with_roster).items():
            assert found[file]["name"].startswith(student["name"])  # the file may follow, to tell two of a name apart
            assert {**found[file], "name": ""} == {**student, "name": ""}
        with Path(top, "out", "files.csv").open(encoding="utf-8-sig", newline="") as file:
            listed = {row["file"] for row in csv.DictReader(file)}
        shown = clean(path.relative_to(folder).as_posix(), 300)
        is_passed_over = path.is_dir() or name.startswith((".", *PASSED_OVER_PREFIXES))
        assert is_passed_over or {shown, f"'{shown}"} & listed
        if kind == "closed folder":
            path.chmod(0o700)


ODD_ROWS = [
    "", ",", '"', '"eve', 'eve"s,s9', '"eve" x,s9', "Last, First,s9", "eve\rx,s9", "eve\u2028x,s9", "e\0,s9", "e,s9,",
    "=1+1,s9", ';;"', "eve\ts9", '"e\nv\ne",s9', "s9", "\ufeffeve,s9", "x," + "9" * 200_000,
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(ODD_ROWS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.integers(0, 3))
def test_no_row_of_a_roster_changes_another_one(row, place):
    before = ROSTER.splitlines()
    with tempfile.TemporaryDirectory() as top:
        put(Path(top), **{"r.csv": "\n".join([*before[: place + 1], row, *before[place + 1 :]]) + "\n"})
        roster = read_roster(Path(top, "r.csv"))
    known = [student for student in roster.students if student.id in ("s1", "s2", "s3")]
    others = [student for student in roster.students if student not in known]
    assume(not {key for one in known for key in one.keys} & {key for one in others for key in one.keys})
    assert [(one.name, one.notes) for one in known] == [("ada", ()), ("Li, Zoë", ()), ("cid", ())]
    shown = " ".join([*(one.name + one.id for one in others), *(text for text, _ in roster.odd)])
    assert {letter for letter in row if letter.isalnum()} <= set(shown), "it is named in the marks"


ODD_ENTRIES = [
    "7", "[]", "{}", ":submitters:", ":submitters: []", ":submitters: [x]", ":submitters: [{}]", "- [", "\t- {", '"',
    ":submitters:\n  - :name: !ruby/object:X {}", ":submitters:\n  - :name: &a [*a]", "*x", "!!python/none x",
    ":submitters:\n  - :name: a\n  :created_at: 2026-99-99", ":submitters:\n  - :name: a\x01", "? ? ?", "...",
    ":submitters:\n  - :name: a\n  :created_at: 0001-01-01 00:00:00 +14:00",
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(ODD_ENTRIES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans())
def test_no_entry_of_gradescopes_metadata_changes_another_one(entry, first):
    odd = f"submission_9:\n  {entry}\n"
    with tempfile.TemporaryDirectory() as top:
        put(
            Path(top), **{"submission_metadata.yml": odd + METADATA if first else METADATA + odd, "submission_1/a": ONE}
        )
        owners = Owners(Path(top))
    found = [owners.of(PurePath(f"submission_{number}/a.ipynb")) for number in (1, 2, 3)]
    assert [owner.keys for owner in found] == [("s1", "ada"), ("s2", "Zoë Li"), ("s3", "cid")]
    assert owners.of(PurePath("submission_9/a.ipynb")).group == PurePath("submission_9")


# ---- those that were met ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["owner", "roster 000000", "owner roster 000000", "roster row 000000", "Canvas ada 11"]
)
@pytest.mark.parametrize("form", ["files", "canvas"])
def test_no_name_of_a_file_is_that_of_a_students_files_together(form, name, tmp_path):
    make_class(tmp_path / "class", form)
    put(tmp_path, **{"r.csv": ROSTER, f"class/{name}": BOTH})
    found = marks_in(tmp_path / "class", tmp_path / "out", tmp_path / "r.csv")
    assert found[name]["total"] == 12 and "not in the roster" in found[name]["notes"]
    del found[name]
    assert found == marks_without(form, True)


@pytest.mark.parametrize(("first", "second", "more"), [
    ("Ada_11_assignsubmission_file_/a.ipynb", "Ada_11", {}), ("ada_11_501_a.ipynb", "ada_11", {}),
    ("lab-s11.ipynb", "s11/a.ipynb", {"names": "-(?P<id>s[0-9]+)"}),
])  # fmt: skip
def test_a_file_called_as_another_students_folder_is_read_is_another_student(first, second, more, tmp_path):
    put(tmp_path, **{first: ONE, second: BOTH})
    students = grade(tmp_path, ["00"], jobs=1, judged_by=judge_here, journal=JOURNAL, **more).students
    assert sorted((one.total, one.file) for one in students) == [(6, first), (12, second)]


@pytest.mark.parametrize("text", ["hi", "ada.ipynb:\n  :submitters:\n  - :name: Eve\n", "ada:\n  :submitters: []\n"])
@pytest.mark.parametrize("form", ["files", "folders"])
def test_metadata_that_a_student_wrote_is_a_file_of_the_class(form, text, tmp_path):
    make_class(tmp_path / "class", form)
    put(tmp_path / "class", **{"submission_metadata.yml": text})
    found = marks_in(tmp_path / "class", tmp_path / "out")
    assert "is a .yml file" in found.pop("submission_metadata.yml")["problem"] and found == marks_without(form, False)


def test_what_systems_put_beside_files_is_passed_over_and_a_placeholder_is_said(tmp_path):
    left = dict.fromkeys(["ada/Desktop.ini", "THUMBS.DB", "$RECYCLE.BIN/x", "ada/.virtual_documents/a.ipynb"], "x")
    put(tmp_path / "class", **left, **{"ada/a.ipynb": ONE, "ada/.b.ipynb.icloud": "x", ".bob.ipynb.icloud": "x"})
    found = marks_in(tmp_path / "class", tmp_path / "out")
    told = "is a placeholder of iCloud; download the file itself"
    assert sorted(found) == [".bob.ipynb.icloud", "ada"] and found[".bob.ipynb.icloud"]["problem"] == told
    assert found["ada"]["total"] == 6 and f"the file .b.ipynb.icloud {told}" in found["ada"]["notes"]


@needs_links
def test_a_ring_of_links_is_a_row(tmp_path):
    folder = tmp_path / "class"
    put(folder, **{"ada/a.ipynb": ONE})
    for name, target in {"x": "x", "y.ipynb": "z.ipynb", "z.ipynb": "y.ipynb", "ada/r.ipynb": "r.ipynb"}.items():
        (folder / name).symlink_to(target)
    found = marks_in(folder, tmp_path / "out")
    assert found["ada"]["total"] == 6 and "the file r.ipynb is a link that leads nowhere" in found["ada"]["notes"]
    assert [found[name]["problem"] for name in ("x", "y.ipynb")] == [
        "is a link that leaves the student's own folder"
    ] * 2


@pytest.mark.parametrize("letter", ["𠮷", "Ж", "e\u0301", "a"])
def test_a_long_name_has_a_form_on_every_file_system(letter, tmp_path):
    (name,) = distinct_names([letter * 300])
    assert len(name.encode()) <= 120 and name == normalize("NFC", letter * 300)[: len(name)]
    put(tmp_path / "class", **{"a.ipynb": ONE, "x.json": REPORT % f'"{letter * 80}"'})
    assert len(marks_in(tmp_path / "class", tmp_path / "out")) == 2


def test_forms_have_different_names_where_case_and_accents_count_for_nothing():
    made = list(distinct_names(["Zo\u00eb", "Zoe\u0308", "ZOË", "con", "Aux.x", "lpt1", "second"]))
    assert made == ["Zoë", "Zoë-2", "ZOË-3", "con_", "Aux_.x", "lpt1_", "second"]


def test_a_folder_that_cannot_be_opened_is_a_row(tmp_path, monkeypatch):
    folder = tmp_path / "class"
    put(folder, **{"ada/a.ipynb": ONE, "bob/b.ipynb": ONE, "cid/deep/c.ipynb": ONE, "cid/c.ipynb": ONE})
    scandir = os.scandir

    def closed(path):
        if Path(path).name in ("bob", "deep"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", closed)
    found = marks_in(folder, tmp_path / "out")
    assert found["bob"]["problem"] == "is a folder that cannot be opened: Permission denied"
    assert found["cid"]["total"] == 6 and "the file deep is a folder that cannot be opened" in str(
        found["cid"]["notes"]
    )


def test_whatever_goes_wrong_in_a_file_is_a_note_of_its_own(tmp_path, monkeypatch):
    put(tmp_path / "class", **{"ada.ipynb": ONE, "bob.ipynb": ONE})
    read = grading.read_submission

    def fails(path, folder):
        if path.name == "bob.ipynb":
            raise KeyError("what nobody thought of")
        return read(path, folder)

    monkeypatch.setattr(grading, "read_submission", fails)
    found = marks_in(tmp_path / "class", tmp_path / "out")
    assert found["ada.ipynb"]["total"] == 6
    assert found["bob.ipynb"]["problem"] == "cannot be read; please report it: KeyError: 'what nobody thought of'"


def test_marks_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    put(tmp_path / "class", **{"ada.ipynb": ONE, "bob.ipynb": ONE})
    marks_in(tmp_path / "class", tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    put(tmp_path / "class", **{"bob.ipynb": BOTH})
    monkeypatch.setattr(marks_files, "_details", lambda student, marks: iter(5) if student.name == "bob" else iter(()))
    with pytest.raises(TypeError):
        marks_in(tmp_path / "class", tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == before


def test_the_command_names_every_file_and_leaves_the_instructors_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    put(
        Path("class"),
        **{
            "ada/lab.ipynb": ONE,
            "ada/lab.html": "<p>",
            "ada/fig.png": "x",
            "ada/.git/config": "x",
            "roster.csv": "name\nada\n",
        },
    )
    assert cli.main(["grade", "class", "--lab", "00", "--roster", "class/roster.csv", "--out", "class/marks"]) == 0
    with Path("class/marks/files.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["file", "student", "read", "why not"],
        ["ada/.git", "ada", "no", "is passed over"],
        ["ada/fig.png", "ada", "no", "is a .png file; hand in the notebook or the report"],
        ["ada/lab.html", "ada", "no", "stands beside lab.ipynb, which counts"],
        ["ada/lab.ipynb", "ada", "yes", ""],
    ]
    with Path("class/marks/marks.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["notes"] == "2 files: lab.ipynb, fig.png; the file fig.png is a .png file" and row["total"] == "6"
    assert "from 2 files" in capsys.readouterr().out
