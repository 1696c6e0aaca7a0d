"""A school's ways: rosters, weights, the folders of Moodle, Canvas, Gradescope and nbgrader, what these import."""

import csv
import json
import os
from datetime import UTC, datetime
from pathlib import Path, PurePath

import pytest

from lplab import cli
from lplab.exercises.grading.gradebooks import gradebooks
from lplab.exercises.grading.gradebooks import remarks as gradebook_remarks
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.marks import MISSING
from lplab.exercises.grading.marks_files import write_marks
from lplab.exercises.grading.owners import Owners
from lplab.exercises.grading.roster import CANVAS, MOODLE, OTHER, read_roster
from lplab.exercises.grading.weights import read_weights
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here

MIDPOINT, EXPOSE = exercise_catalogue.get("00.1"), exercise_catalogue.get("00.2")
FULL = sum(exercise.points for exercise in exercise_catalogue.of_lab("00"))
WRONG = "def midpoint(low, high):\n    return low\n\ncheck('00.1', midpoint)"


def solved(exercise):
    return f"{exercise.solution}\n\ncheck({exercise.id!r}, {exercise.name})"


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


ONE, BOTH = notebook(solved(MIDPOINT)), notebook(solved(MIDPOINT), solved(EXPOSE))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


def put(folder, **files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def graded(folder, **more):
    return grade(folder, ["00"], jobs=1, judged_by=judge_here, **more)


def rows_of(path, encoding="utf-8"):
    return list(csv.reader(path.open(encoding=encoding, newline="")))


# ---- whose file it is ------------------------------------------------------------------------------------------------


def test_moodles_folders_are_students(folder):
    put(folder, **{"Ada Lovelace_11_assignsubmission_file_/lab.ipynb": ONE,
                   "Ada Lovelace_11_assignsubmission_file_/deeper/again.ipynb": BOTH,
                   "Zoë O’Neil_12_assignsubmission_file_lab.ipynb": ONE,
                   "Ada Lovelace_13_assignsubmission_file/lab.ipynb": ONE})  # fmt: skip
    students = graded(folder).students
    assert [student.name.partition(" (")[0] for student in students] == ["Ada Lovelace", "Ada Lovelace", "Zoë O’Neil"]
    assert sorted(student.total for student in students) == [6, 6, 12]


def test_canvas_names_files_beside_each_other_and_the_files_of_one_id_are_one_student(folder):
    put(folder, **{"lovelaceada_11_501_lab00.ipynb": ONE, "lovelaceada_11_502_lab00-1.ipynb": BOTH,
                   "lovelaceada_12_503_lab00.ipynb": ONE, "babbagecharles_LATE_13_504_my_lab.ipynb": ONE})  # fmt: skip
    students = graded(folder).students
    assert [student.total for student in students] == [6, 12, 6] and len(students) == 3
    assert "marked as late; when it was handed in is not known" in students[0].notes[0]


def test_gradescope_tells_in_a_file_of_metadata(folder):
    told = """
submission_1:
  :submitters:
  - :name: Ada Lovelace
    :sid: s11
    :email: ada@uni.edu
  :created_at: 2026-10-06 12:00:00.000000000 Z
  :score: 0.0
submission_2:
  :submitters:
  - :name: Charles Babbage
    :sid:
    :email: charles@uni.edu
  - :name: Grace Hopper
"""
    put(folder, **{"submission_metadata.yml": told, "submission_1/lab.ipynb": ONE, "submission_2/a/lab.ipynb": BOTH})
    ada = Owners(folder).of(PurePath("submission_1/lab.ipynb"))
    assert ada.keys == ("s11", "ada@uni.edu", "Ada Lovelace") and ada.time == datetime(2026, 10, 6, 12, tzinfo=UTC)
    students = {student.name: student for student in graded(folder).students}
    assert {name: one.total for name, one in students.items()} == {"Ada Lovelace": 6, "Charles Babbage": 12}
    assert "handed in together with Grace Hopper" in " ".join(students["Charles Babbage"].notes)
    put(folder, **{"submission_metadata.yml": "- submission_1"})
    with pytest.raises(ValueError, match="is not as Gradescope writes it"):
        graded(folder)


def test_nbgraders_folder_has_students_assignments_and_times(tmp_path):
    folder = tmp_path / "submitted"
    put(folder, **{"ada/lab00/lab.ipynb": ONE, "ada/lab01/lab.ipynb": notebook("x = 1"), "bob/lab00/lab.ipynb": BOTH,
                   "ada/lab00/timestamp.txt": "2026-10-06 14:00:00.5 Europe/Berlin"})  # fmt: skip
    owners = Owners(folder)
    assert owners.of(PurePath("ada/lab00/lab.ipynb")).time.astimezone(UTC).hour == 12
    assert owners.of(PurePath("bob/lab00/lab.ipynb")).time is None
    assert [(student.name, student.total) for student in graded(folder).students] == [("ada", 6), ("bob", 12)]


def test_a_pattern_names_students(folder):
    put(folder, **{"lab00-s11-v1.ipynb": ONE, "lab00-s11-v2.ipynb": BOTH, "lab00-s12.ipynb": ONE, "odd.ipynb": ONE})
    found = {student.name: student.total for student in graded(folder, names=r"-(?P<id>s\d+)").students}
    assert found == {"s11": 12, "s12": 6, "odd": 6}


@pytest.mark.parametrize(("pattern", "told"), [("(", "is no regular expression"), (".*", "has no group")])
def test_a_pattern_that_names_nobody_is_refused(pattern, told, folder, capsys):
    put(folder, **{"a.ipynb": ONE})
    with pytest.raises(SystemExit):
        cli.main(["grade", str(folder), "--names", pattern, "--out", str(folder / "marks")])
    assert told in (said := capsys.readouterr().err) and said.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_lead_nowhere_but_into_the_students_own_folder(folder, tmp_path):
    put(folder, **{"ada/lab.ipynb": BOTH, "bob/own.ipynb": ONE, "cid/x.ipynb": ONE})
    put(tmp_path, **{"outside.ipynb": BOTH})
    (folder / "bob" / "adas.ipynb").symlink_to(folder / "ada" / "lab.ipynb")
    (folder / "bob" / "again.ipynb").symlink_to("own.ipynb")
    (folder / "cid" / "out.ipynb").symlink_to(tmp_path / "outside.ipynb")
    (folder / "dan").symlink_to(folder / "ada")
    (folder / "eve.ipynb").symlink_to(folder / "ada" / "lab.ipynb")
    (folder / "fay.ipynb").symlink_to("/dev/zero")
    found = {student.name: (student.total, student.remarks) for student in graded(folder).students}
    assert found["ada"] == (12, "") and found["dan"][0] == 0 and "is a link that leaves" in found["dan"][1]
    assert found["bob"][0] == 6 and "adas.ipynb is a link that leaves the student's own folder" in found["bob"][1]
    assert "again.ipynb is" not in found["bob"][1]
    assert found["cid"][0] == 6 and "out.ipynb is a link" in found["cid"][1]
    assert found["eve"][0] == found["fay"][0] == 0 and "is a link" in found["eve"][1] and "is a link" in found["fay"][1]


# ---- the roster ------------------------------------------------------------------------------------------------------

MOODLE_SHEET = (
    "Identifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Last modified (grade),Feedback comments\n"
    'Participant 11,Ada Lovelace,s11,ada@uni.edu,"Submitted for grading - ",,100.00,-,\n'
    "Participant 12,Zoë O’Neil,s12,zoe@uni.edu,No submission,,100.00,-,\n"
    '"Participant 14","=HYPERLINK(0)",s14,c@uni.edu,No submission,"55,00","100,00",-,\n'
)
CANVAS_BOOK = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 00 (77),Final Score\n"
    "    Points Possible,,,,,10,(read only)\n"
    '"Lovelace, Ada",11,s11,ada,Group 1,,\n'
    '"Babbage, Charles",13,s13,charles,Group 1,3.5,\n'
    '"Student, Test",99,,,Group 1,,\n'
)


def test_students_who_handed_in_nothing_have_rows_and_no_zero(folder, tmp_path):
    put(
        folder,
        **{"Ada Lovelace_11_assignsubmission_file_/lab.ipynb": BOTH, "Eve_15_assignsubmission_file_/x.ipynb": ONE},
    )
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    roster = read_roster(tmp_path / "sheet.csv")
    marks = graded(folder, roster=roster)
    assert roster.kind == MOODLE and [student.absent for student in marks.students] == [True, False, False, True]
    write_marks(marks, tmp_path / "out")
    raw = (tmp_path / "out" / "marks.csv").read_bytes()
    assert raw.startswith(b'\xef\xbb\xbf"student","id","email"') and b"Zo\xc3\xab" in raw
    table = {row[0]: row[1:] for row in rows_of(tmp_path / "out" / "marks.csv", "utf-8-sig")}
    assert table["Ada Lovelace"] == ["s11", "ada@uni.edu", "6", "6", "", "12", str(FULL), ""]
    assert table["Zoë O’Neil"] == ["s12", "zoe@uni.edu", "", "", "", "", str(FULL), MISSING]
    assert table["Eve"][-1] == "not in the roster" and "'=HYPERLINK(0)" in table
    sheet = rows_of(tmp_path / "out" / "moodle.csv")
    assert sheet[0] == MOODLE_SHEET.splitlines()[0].split(",")[:-1], "no comments, which an import would overwrite"
    assert [row[0] for row in sheet[1:]] == ["Participant 11", "Participant 12", "Participant 14"]
    assert [row[5] for row in sheet[1:]] == [f"{100 * 12 / FULL:.2f}", "", "55,00"], "on the worksheet's own scale"
    assert not (tmp_path / "out" / "canvas.csv").exists()
    assert len(list((tmp_path / "out" / "gradescope").iterdir())) == 2


def test_a_wrong_answer_is_a_zero_also_where_a_grade_stands(folder, tmp_path):
    put(folder, **{"s14.ipynb": notebook(WRONG.replace("return low", "return 0"))})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    write_marks(graded(folder, roster=read_roster(tmp_path / "sheet.csv")), tmp_path / "out")
    assert [row[5] for row in rows_of(tmp_path / "out" / "moodle.csv")[1:]] == ["", "", "0"]


def test_canvas_gets_its_own_columns_and_the_heading_of_its_assignment(folder, tmp_path):
    put(folder, **{"lovelaceada_11_501_lab00.ipynb": BOTH})
    put(tmp_path, **{"book.csv": CANVAS_BOOK})
    roster = read_roster(tmp_path / "book.csv")
    assert roster.kind == CANVAS and [student.name for student in roster.students] == [
        "Lovelace, Ada",
        "Babbage, Charles",
    ]
    write_marks(graded(folder, roster=roster), tmp_path / "out")
    text = (tmp_path / "out" / "canvas.csv").read_text("utf-8")
    assert text.startswith('"Student","ID","SIS User ID","SIS Login ID","Section","Lab 00 (77)"\n'), (
        "no BOM, all quoted"
    )
    assert rows_of(tmp_path / "out" / "canvas.csv")[1:] == [
        ["    Points Possible", "", "", "", "", "10"],
        ["Lovelace, Ada", "11", "s11", "ada", "Group 1", f"{10 * 12 / FULL:.2f}".rstrip("0")],
        ["Babbage, Charles", "13", "s13", "charles", "Group 1", "3.5"],
    ]


def test_a_list_of_ones_own_gives_a_table_for_moodles_gradebook(folder, tmp_path):
    put(folder, **{"s11.ipynb": ONE, "Charles Babbage.ipynb": BOTH, "dup.ipynb": ONE})
    put(tmp_path, **{"list.csv": "First Name;Last Name;SID;Email\nAda;Lovelace;s11;ada@x.org\n"
                                 "Charles;Babbage;s13;c@x.org\n"
                                 "Dup;One;s1;d1@x.org\nOne;Dup;s2;d2@x.org\n"})  # fmt: skip
    roster = read_roster(tmp_path / "list.csv")
    write_marks(marks := graded(folder, roster=roster), tmp_path / "out")
    assert roster.kind == OTHER
    assert rows_of(tmp_path / "out" / "moodle.csv") == [
        ["Email address", "ID number", "Lab 00"], ["ada@x.org", "s11", "6"], ["c@x.org", "s13", "12"],
        ["d1@x.org", "s1", ""], ["d2@x.org", "s2", ""],
    ]  # fmt: skip
    assert [student.name for student in marks.students if student.place is None] == ["dup"]
    assert roster.find(["Dup One"]) is None, "a name that two have names nobody"


def test_two_files_of_one_student_are_one_row_and_a_report_cannot_leave_its_place(folder, tmp_path):
    report = {"lplab_report": 1, "name": "Ada Lovelace", "exercises": [
        {"id": "00.1", "function": MIDPOINT.name, "latest": MIDPOINT.solution}]}  # fmt: skip
    put(folder, **{"s11.ipynb": notebook(solved(EXPOSE)), "Ada Lovelace.ipynb": ONE, "s12/r.json": json.dumps(report)})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    found = {s.name: s for s in graded(folder, roster=read_roster(tmp_path / "sheet.csv")).students}
    assert found["Ada Lovelace"].total == 12 and found["Ada Lovelace"].notes[0].startswith("2 files: ")
    assert found["Zoë O’Neil"].total == 6, "what the report says of its name counts for nothing"


@pytest.mark.parametrize("name", ["Ada Lovelace", "ada@uni.edu", "s11"])
def test_a_report_with_the_name_of_a_classmate_has_a_row_of_its_own(name, folder, tmp_path):
    report = {"lplab_report": 1, "name": name, "exercises": [
        {"id": "00.1", "function": MIDPOINT.name, "latest": MIDPOINT.solution}]}  # fmt: skip
    put(folder, **{"homework.json": json.dumps(report), "Ada Lovelace.ipynb": notebook(solved(EXPOSE))})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    found = {s.file: s for s in graded(folder, roster=read_roster(tmp_path / "sheet.csv")).students if s.file}
    assert found["Ada Lovelace.ipynb"].total == 6 and found["Ada Lovelace.ipynb"].place == 0
    other = found["homework.json"]
    assert other.total == 6 and other.place is None and "not in the roster" in other.notes
    assert "its report says that it is of Ada Lovelace, who is in the roster" in other.notes


def test_a_file_that_several_of_the_roster_may_mean_has_a_row_of_its_own(folder, tmp_path):
    put(folder, **{"dup one.ipynb": ONE})
    put(tmp_path, **{"r.csv": "name,id\nDup One,1\nOne Dup,2\n"})
    found = {s.file: s for s in graded(folder, roster=read_roster(tmp_path / "r.csv")).students}
    assert found["dup one.ipynb"].notes == ("several of the roster are called dup one", "not in the roster")


def test_a_report_has_the_name_that_the_command_gave_its_file(folder, tmp_path):
    report = {"lplab_report": 1, "name": "Ada Lovelace", "exercises": [
        {"id": "00.1", "function": MIDPOINT.name, "latest": MIDPOINT.solution}]}  # fmt: skip
    put(folder, **{"lplab-report_Ada_Lovelace.json": json.dumps(report)})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    found = {s.name: s for s in graded(folder, roster=read_roster(tmp_path / "sheet.csv")).students}
    assert found["Ada Lovelace"].total == 6 and found["Ada Lovelace"].place == 0


def test_a_report_of_somebody_outside_the_roster_reaches_nobody_in_it(folder, tmp_path):
    """A download may hold all sections, the roster one of them."""
    report = {"lplab_report": 1, "name": "Ada Lovelace", "exercises": [
        {"id": "00.1", "function": MIDPOINT.name, "latest": MIDPOINT.solution}]}  # fmt: skip
    put(folder, **{"Mallory_99_assignsubmission_file_/r.json": json.dumps(report)})
    put(folder, **{"Zoë O’Neil_12_assignsubmission_file_/a.ipynb": notebook(solved(EXPOSE))})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    found = {s.name: s for s in graded(folder, roster=read_roster(tmp_path / "sheet.csv")).students}
    assert found["Ada Lovelace"].total == 0 and found["Ada Lovelace"].file == ""
    assert "not in the roster" in found["Mallory"].notes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "has no column for a name, an id or an e-mail; it has: a, b"),
        ("id,name\n", "has no student in it"),
        ('id,name\n1,"A\n', "is no CSV"),
        ("name,submitted\nA,yesterday\n", "'yesterday' of A is no time"),
        ("name,submitted\nA,2026-10-05T12:00\n", "needs its offset"),
    ],
)
def test_a_roster_that_makes_no_sense_gets_one_line(text, told, folder, tmp_path, capsys):
    put(folder, **{"a.ipynb": ONE})
    put(tmp_path, **{"r.csv": text})
    with pytest.raises(SystemExit):
        cli.main(["grade", str(folder), "--roster", str(tmp_path / "r.csv"), "--out", str(tmp_path / "marks")])
    assert told in (said := capsys.readouterr().err) and said.count("\n") == 1


def test_a_roster_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "r.csv").write_bytes("name\nZoë\n".encode("cp1252"))
    with pytest.raises(ValueError, match="is not in UTF-8"):
        read_roster(tmp_path / "r.csv")


def test_a_roster_and_a_row_for_each_file_exclude_each_other(folder, tmp_path):
    put(folder, **{"a.ipynb": ONE})
    put(tmp_path, **{"r.csv": "name\nA\n"})
    with pytest.raises(ValueError, match="leave --each-file out"):
        graded(folder, roster=read_roster(tmp_path / "r.csv"), each_file=True)


# ---- where facts disagree --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["week_10_2_{}", "week_10_{n}_{}", "week_1{n}_{n}_{}", "lab00_2026_10_{}",
                                  "CS101_2026_01_{}", "{}_10_2_lab", "{}_10_{n}_lab"])  # fmt: skip
def test_names_with_two_numbers_are_not_all_canvass(form, folder):
    put(folder, **{f"{form.format(name, n=n)}.ipynb": ONE for n, name in enumerate(("ada", "bob", "cid"), 1)})
    students = graded(folder).students
    assert len(students) == 3 and [student.total for student in students] == [6, 6, 6]


def test_a_text_that_canvas_took_belongs_to_the_student_of_the_files(folder):
    put(
        folder,
        **{"lovelaceada_11_501_l.ipynb": ONE, "lovelaceada_11_text.html": "<p>", "o_neil_12_502_a_3_4.ipynb": ONE},
    )
    ada, neil = graded(folder).students
    assert "the file lovelaceada_11_text.html is a .html file" in ada.remarks and neil.name == "o_neil"


@pytest.mark.parametrize("more", [
    {"._lovelaceada_11_501_l.ipynb": "x", "._babbagebob_12_502_l.ipynb": "x"}, {"lovelaceada_11_501_l (1).ipynb": ONE},
    {"lovelaceada_11_503_p.zip": "PK\x03\x04", "lovelaceada_11_503_p/deep/l.ipynb": ONE},
])  # fmt: skip
@pytest.mark.parametrize("with_roster", [True, False])
def test_what_a_computer_puts_beside_the_files_of_canvas_changes_nobody(with_roster, more, folder, tmp_path):
    put(folder, **{"lovelaceada_11_501_l.ipynb": ONE, "babbagebob_12_502_l.ipynb": BOTH}, **more)
    put(tmp_path, **{"r.csv": CANVAS_BOOK.replace("Charles", "Bob").replace(",13,", ",12,")})
    students = graded(folder, roster=read_roster(tmp_path / "r.csv") if with_roster else None).students
    assert [one.total for one in students] == [12, 6] and "joined with nobody" not in students[1].remarks


@pytest.mark.parametrize(
    ("name", "who", "told"),
    [
        (
            "Group A_12",
            "Group A",
            "Participant 12 is the number of Bob Babbage in the roster, who is not called Group A",
        ),
        ("Bob Babbage_11", "Bob Babbage (", "Participant 11 means Ada Lovelace and Bob Babbage means Bob Babbage"),
        (
            "Bob Babbage_99",
            "Bob Babbage (",
            "Bob Babbage has the number Participant 12 in the roster, not Participant 99",
        ),
        ("Default group", "Default group", "not in the roster"),
        ("Group A-Bob Babbage_12", "Bob Babbage", ""),
        ("BABBAGE Bob_12", "Bob Babbage", ""),
        ("Zo├½ Li_13", "Zoë Li", ""),
    ],
)
def test_a_number_of_moodle_counts_with_its_name(name, who, told, folder, tmp_path):
    put(folder, **{f"{name}_assignsubmission_file_/l.ipynb": ONE})
    put(tmp_path, **{"r.csv": "Identifier,Full name,Grade\nParticipant 11,Ada Lovelace,\nParticipant 12,Bob Babbage,\n"
                              "Participant 13,Zoë Li,\n"})  # fmt: skip
    students = graded(folder, roster=read_roster(tmp_path / "r.csv")).students
    (found,) = [student for student in students if not student.absent]
    assert found.name.startswith(who) and told in found.remarks and (found.place is None) == bool(told)
    assert len(students) == 3 + bool(told)


def test_a_worksheet_that_hides_the_names_has_its_numbers(folder, tmp_path):
    put(folder, **{"Participant_11_assignsubmission_file_/l.ipynb": ONE})
    put(tmp_path, **{"r.csv": "Identifier,Status,Grade\nParticipant 11,,\nParticipant 12,,\n"})
    assert [one.absent for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students] == [False, True]


def test_a_list_may_have_other_numbers_than_canvas(folder, tmp_path):
    put(folder, **{"lovelaceada_11_501_l.ipynb": ONE, "babbagebob_12_502_l.ipynb": ONE})
    put(tmp_path, **{"r.csv": "name,id\nBob Babbage,11\nAda Lovelace,5\n"})
    found = {one.name: one for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students}
    assert found["Bob Babbage"].file == "babbagebob_12_502_l.ipynb" and found["Ada Lovelace"].absent
    assert "11 means Bob Babbage and lovelaceada means Ada Lovelace" in found["lovelaceada"].remarks


def test_folders_in_folders_are_one_student(folder):
    put(folder, **{"ada/labs/a.ipynb": ONE, "ada/more/b.ipynb": notebook(solved(EXPOSE)), "bob/x/y/z.ipynb": ONE,
                   "bob/package.json": "{}", "Li, Zoë(zoe)/Submission attachment(s)/a.ipynb": ONE})  # fmt: skip
    ada, bob, zoe = graded(folder).students
    assert (ada.total, bob.total, zoe.name) == (12, 6, "Li, Zoë(zoe)")
    assert ada.notes == ("2 files: labs/a.ipynb, more/b.ipynb",
                         "if the folders in ada are students (labs, more), grade that folder itself")  # fmt: skip
    assert "the file package.json is JSON, but neither a notebook nor a report" in bob.notes
    assert Owners(folder).of(PurePath("Li, Zoë(zoe)/Submission attachment(s)/a.ipynb")).keys == ("zoe", "Li, Zoë")


def test_a_name_with_accents_is_that_of_whom_it_is_written_like(folder, tmp_path):
    names = ["Zoe\u0308", "Zoe", "MÜLLER", "Jose", "का", "कि"]
    put(folder, **{f"{name}.ipynb": ONE for name in names})
    put(tmp_path, **{"r.csv": "name\nZoë\nZoe\nMüller\nJosé\nका\nकि\n"})
    found = [(one.name, one.file) for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students]
    expected = dict(zip(["Zoë", "Zoe", "Müller", "José", "का", "कि"], (f"{name}.ipynb" for name in names), strict=True))
    assert dict(found) == expected and len(found) == 6


@pytest.mark.parametrize(("known", "file"), [
    ("राम", "रीमा"), ("だいき", "たいき"), ("ปุ", "ปู"), ("1-12", "11-2"), ("4711.0", "47110"), ("1 12", "11_2"),
])  # fmt: skip
def test_a_name_or_number_of_other_letters_or_parts_is_nobodys(known, file, folder, tmp_path):
    put(folder, **{f"{file}.ipynb": ONE})
    put(tmp_path, **{"r.csv": f"name\n{known}\nBob\n"})
    assert [one.place for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students if one.file] == [None]
    put(tmp_path, **{"r.csv": f"name\n{known}\n{file}\n"})
    assert [one.place for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students if one.file] == [1]


@pytest.mark.parametrize(("known", "file"), [
    ("19-123-456", "19123456"), ("19123456", "19-123-456"), ("2026_001", "2026-001"), ("مُحَمَّد", "محمد"), ("Zoë", "Zoe"),
])  # fmt: skip
def test_signs_and_accents_of_one_side_alone_count_for_nothing(known, file, folder, tmp_path):
    put(folder, **{f"{file}.ipynb": ONE})
    put(tmp_path, **{"r.csv": f"name\n{known}\nBob\n"})
    assert [one.place for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students if one.file] == [0]


def test_a_name_with_a_dot_is_no_ending_where_the_roster_knows_it(folder, tmp_path):
    put(folder, **{"ada.smith": ONE, "bob.jones": ONE})
    put(tmp_path, **{"r.csv": "name,login\nAda Smith,ada.smith\nBob Jones,bob.jones\nBob Kay,bob\n"})
    found = {one.file: one for one in graded(folder, roster=read_roster(tmp_path / "r.csv")).students if one.file}
    assert found["ada.smith"].place == 0 and found["bob.jones"].place is None
    told = "bob.jones means Bob Jones and bob means Bob Kay: the file was joined with nobody"
    assert told in found["bob.jones"].remarks


@pytest.mark.parametrize(("names", "file", "text"), [
    ("lab01-(?P<id>[^/]+)", "lab01-adalove/l.ipynb", "identifier,github_username,name\na@x,adalove,Ada B\n"),
    ("- (?P<name>.+?) -", "12345-67890 - Ada B - Oct 5, 2026 1015 PM/l.ipynb", "name\nAda B\n"),
    ("_(?P<id>[^_]+)_attempt_", "gradebook_CS101_Lab1_ada01_attempt_2026-10-05-22-10-11_l.ipynb",
     "name,username\nAda B,ada01\n"),
])  # fmt: skip
def test_the_patterns_that_the_page_gives_for_other_systems(names, file, text, folder, tmp_path):
    assert names in (Path(__file__).parents[3] / "docs" / "teaching.md").read_text("utf-8")
    put(folder, **{file: ONE})
    put(tmp_path, **{"r.csv": text})
    (ada,) = graded(folder, roster=read_roster(tmp_path / "r.csv"), names=names).students
    assert (ada.name, ada.total, ada.remarks) == ("Ada B", 6, "")


@pytest.mark.parametrize(
    "text",
    [
        "name,id\nAda\u2028Lovelace,s1\nBob,s2\n", "name,id\rAda Lovelace,s1\rBob,s2\r",
        "name,id\r\nAda\rLovelace,s1\r\nBob,s2\r\n", "\ufeff\ufeffname,id\nAda Lovelace,s1\nBob,s2",
        "name\tid\n\"Lovelace, Ada\"\ts1\nBob\ts2\n", '"name, full";name;id\nx;"Lovelace, Ada";s1\nx;Bob;s2\n',
        "sep=;\nname;id\nAda Lovelace;s1\nBob;s2\n", 'name, id\n"Lovelace, Ada", s1\nBob, s2\n',
        '\n\nname,id,\n"Ada\nLovelace",s1,\n,,\nBob,s2,,\n', "NAME , Student  ID\nADA LOVELACE,S1\nBob,S2\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_ways_to_write_a_roster(text, encoding, tmp_path):
    (tmp_path / "r.csv").write_bytes(text.encode(encoding))
    roster = read_roster(tmp_path / "r.csv")
    assert [roster.find([key]) for key in ("ada lovelace", "s1", "Bob", "s2")] == [0, 0, 1, 1]
    assert len(roster.students) == 2 and not roster.odd


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("Lovelace, Ada,s1", "not handed in; row 2 of the roster has 3 cells for 2 headings: put names in quotes"),
        ('"Ada" Lovelace,s1', "not handed in; row 2 of the roster is no CSV"),
        ('"Ada Lovelace,s1', "not handed in; row 2 of the roster is no CSV"),
        ("Ada,s3", "the roster has the id 's3' twice: Ada, Bob"),
        ("Bob,s3", "2 files: bob.ipynb, s3.ipynb; stands 2 times in the roster"),
    ],
)
def test_a_row_of_the_roster_that_is_odd_is_a_note(row, told, folder, tmp_path):
    put(folder, **{"bob.ipynb": ONE, "s3.ipynb": BOTH})
    put(tmp_path, **{"r.csv": f"name,id\n{row}\nBob,s3\nCid,s4\n"})
    students = graded(folder, roster=read_roster(tmp_path / "r.csv")).students
    assert [one.remarks for one in students if one.remarks.startswith(told)]
    is_known = "id 's3'" not in told  # else two have that id, and the file is nobody's
    assert {one.name: one.total for one in students}["Bob"] == (12 if is_known else 6)


def test_a_time_that_makes_no_sense_is_a_note(folder, tmp_path):
    put(folder, **{"ada.ipynb": ONE, "bob.ipynb": ONE})
    put(tmp_path, **{"r.csv": "name,submitted\nAda,yesterday\nBob,2026-10-05T12:00Z\n"})
    ada, bob = graded(folder, roster=read_roster(tmp_path / "r.csv")).students
    assert "'yesterday' of Ada is no time" in ada.remarks and bob.remarks == ""


@pytest.mark.parametrize("heading", ["Maximum grade", "Maximum Grade", "MAXIMUM  GRADE "])
def test_moodles_maximum_is_found_however_it_is_written(heading, folder, tmp_path):
    put(folder, **{"ada.ipynb": BOTH})
    put(
        tmp_path,
        **{"r.csv": f'identifier,Full Name,GRADE,{heading}\nParticipant 1,Ada,,"1,000.00"\nParticipant 2,Bob,,10\n'},
    )
    marks = graded(folder, roster=read_roster(tmp_path / "r.csv"))
    assert gradebooks(marks)["moodle.csv"][1] == ["Participant 1", "Ada", round(1000 * 12 / FULL, 2), "1,000.00"]
    assert gradebook_remarks(marks) == []


@pytest.mark.parametrize(
    ("heading", "most", "told"),
    [("Scale", "x", "has no column “Maximum grade”"), ("Maximum grade", "-", "no maximum grade can be read for Ada;"),
     ("Maximum grade", '"1,000"', "no maximum grade can be read for Ada;")],
)  # fmt: skip
def test_a_maximum_that_is_missing_is_said(heading, most, told, folder, tmp_path, capsys):
    put(folder, **{"ada.ipynb": BOTH})
    put(
        tmp_path,
        **{"r.csv": f"Identifier,Full name,Grade,{heading}\nParticipant 1,Ada,,{most}\nParticipant 2,Bob,,10\n"},
    )
    argv = ["grade", str(folder), "--lab", "00", "--roster", str(tmp_path / "r.csv"), "--out", str(tmp_path / "out")]
    assert cli.main(argv) == 0
    assert told in capsys.readouterr().out
    assert told in json.loads((tmp_path / "out" / "marks.json").read_text("utf-8"))["remarks"][0]
    assert rows_of(tmp_path / "out" / "moodle.csv")[1][2] == "12"


def test_a_stub_that_was_left_as_it_was_is_an_empty_cell(folder, tmp_path):
    """So is a function to be repaired that was not: that of 00.1."""
    stubs = [exercise.cell for exercise in exercise_catalogue.of_lab("00")]
    put(folder, **{"ada.ipynb": notebook(stubs[0], solved(EXPOSE), stubs[2]), "bob.ipynb": notebook(WRONG)})
    write_marks(graded(folder), tmp_path / "out")
    ada, bob = rows_of(tmp_path / "out" / "marks.csv", "utf-8-sig")[1:]
    assert ada[1:5] == ["", "6", "", "6"] and bob[1] != "" and bob[2:4] == ["", ""]
    details = {tuple(row[:2]): row for row in rows_of(tmp_path / "out" / "details.csv", "utf-8-sig")}
    assert [details["ada", key][3] for key in ("00.1", "00.3")] == ["not yet"] * 2 and details["ada", "00.1"][7] == ""


@pytest.mark.parametrize("other", ["midpoint.ipynb", "z.ipynb"])
def test_a_stub_beside_an_answer_does_not_take_its_place(other, folder):
    put(folder, **{"ada/m.ipynb": notebook(MIDPOINT.cell), f"ada/{other}": notebook(WRONG.replace("low\n", "7\n"))})
    (ada,) = graded(folder).students
    assert ada.marks["00.1"].status == "failed" and ada.marks["00.1"].where == f"{other}, code cell 1"


# ---- weights ---------------------------------------------------------------------------------------------------------

RULES = """
title = "Homework 1"
[points]
"00.1" = 10
"00.2" = 2.5
[deadlines]
"00" = 2026-10-05T23:59:00+02:00
"00.2" = 2026-10-12T23:59:00+02:00
[late]
grace_minutes = 15
lost_each_day = 0.2
most_lost = 0.5
closed_after_days = 4
"""


@pytest.mark.parametrize(
    ("time", "points", "told"),
    [
        ("2026-10-05T21:00:00Z", {"00.1": 10, "00.2": 2.5}, ""),
        ("2026-10-06T00:10:00+02:00", {"00.1": 10, "00.2": 2.5}, ""),
        ("2026-10-06T12:00:00+02:00", {"00.1": 8, "00.2": 2.5}, "00.1: 1 day late, 20% of its points taken off"),
        ("2026-10-08T12:00:00+02:00", {"00.1": 5, "00.2": 2.5}, "00.1: 3 days late, 50% of its points taken off"),
        ("2026-10-13T12:00:00+02:00", {"00.1": 0, "00.2": 2}, "00.1: 8 days late, 100% of its points taken off"),
    ],
)
def test_points_deadlines_and_what_lateness_costs(time, points, told, folder, tmp_path):
    put(folder, **{"ada.ipynb": BOTH})
    put(tmp_path, **{"r.csv": f"name,submitted\nAda,{time}\nBob,\n", "w.toml": RULES})
    weights, roster = read_weights(tmp_path / "w.toml"), read_roster(tmp_path / "r.csv")
    marks = grade(folder, jobs=1, judged_by=judge_here, weights=weights, roster=roster)
    ada, bob = marks.students
    assert {key: mark.points for key, mark in ada.marks.items()} == points and bob.absent
    assert marks.most_points == 12.5 and told in ada.remarks and ("late" in ada.remarks) == bool(told)
    write_marks(marks, tmp_path / "out")
    assert rows_of(tmp_path / "out" / "moodle.csv")[0][-1] == "Homework 1"
    form = json.loads((tmp_path / "out" / "gradescope" / "Ada.json").read_text())
    assert [test["max_score"] for test in form["tests"]] == [10, 2.5] and form["score"] == ada.total


def test_of_two_answers_the_one_counts_that_keeps_more(folder, tmp_path):
    folder = tmp_path / "submitted"
    put(folder, **{"ada/first/lab.ipynb": notebook(WRONG), "ada/first/timestamp.txt": "2026-10-01 10:00:00 UTC",
                   "ada/second/lab.ipynb": ONE, "ada/second/timestamp.txt": "2026-10-06 10:00:00 UTC"})  # fmt: skip
    put(tmp_path, **{"w.toml": RULES})
    (ada,) = grade(folder, jobs=1, judged_by=judge_here, weights=read_weights(tmp_path / "w.toml")).students
    assert ada.marks["00.1"].passed and ada.total == 8 and any("1 day late" in note for note in ada.notes)


def test_without_a_time_nothing_is_taken_off_and_a_note_says_so(folder, tmp_path):
    put(folder, **{"ada.ipynb": BOTH})
    put(tmp_path, **{"w.toml": RULES})
    (ada,) = grade(folder, jobs=1, judged_by=judge_here, weights=read_weights(tmp_path / "w.toml")).students
    assert ada.total == 12.5 and "00.1: not known when it was handed in; nothing was taken off" in ada.notes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("points = 3", "points is no table; write [points]"),
        ("[pionts]\n", "has 'pionts', which is not known; known are title, points"),
        ('[points]\n"77.7" = 3', "there is no exercise '77.7'"),
        ('[points]\n"00.1" = -1', "must be a number from 0 up, not -1"),
        ('[points]\n"00.1" = "x"', "must be a number from 0 up, not 'x'"),
        ("[late]\nlost_each_day = 20", "is a share from 0 to 1, not 20"),
        ('[deadlines]\n"00" = 2026-10-05T12:00:00', "needs a time with its offset"),
        ('[deadlines]\n"00" = 2026-10-05', "needs a time with its offset"),
        ('[deadlines]\n"0" = 2026-10-05T12:00:00Z', "there is no exercise '0'"),
        ("title = 3", "title is 3, which is no text"),
        ("[", "is no TOML"),
        ('[points]\n"01.1" = 1', "no exercise of these labs has points; the weights name 01.1"),
    ],
)
def test_weights_that_make_no_sense_get_one_line(text, told, folder, tmp_path, capsys):
    put(folder, **{"a.ipynb": ONE})
    put(tmp_path, **{"w.toml": text})
    with pytest.raises(SystemExit):
        cli.main(
            ["grade", str(folder), "--lab", "00", "--weights", str(tmp_path / "w.toml"), "--out", str(tmp_path / "m")]
        )
    assert told in (said := capsys.readouterr().err) and said.count("\n") == 1, said


def test_the_command_says_who_is_absent_and_names_the_file_to_import(folder, tmp_path, capsys):
    put(folder, **{"s11.ipynb": ONE})
    put(tmp_path, **{"sheet.csv": MOODLE_SHEET})
    argv = [
        "grade",
        str(folder),
        "--lab",
        "00",
        "--roster",
        str(tmp_path / "sheet.csv"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert cli.main(argv) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 submissions, of which 0 could not be read\n2 of the roster handed in nothing\n")
    assert str(Path("out") / "moodle.csv") in said and "gradescope: 1 files" in said
