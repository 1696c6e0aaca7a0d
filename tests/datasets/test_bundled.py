"""The bundled data: they are what data/README.md says, and can be made again."""

import hashlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from lplab import datasets
from lplab.datasets import bundled
from tests.datasets.scripts import script

DATA = datasets.data_folder()
README = (DATA / "README.md").read_text(encoding="utf-8")


# ---- the files and their README --------------------------------------------------------------------------------------


def test_readme_tells_every_file_and_its_hash():
    documented = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", README, flags=re.M))
    data = {".npz", ".txt", ".json"}
    measured = {DATA / "claims", DATA / "measured"}  # results tell themselves how they were made
    files = [p for p in DATA.rglob("*") if p.is_file() and p.suffix in data and not measured & {*p.parents}]
    assert set(documented) == {p.relative_to(DATA).as_posix() for p in files}
    for path in files:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == documented[path.relative_to(DATA).as_posix()], path.name


def test_readme_tells_how_the_training_went_and_what_ranges_came_of_it():
    rows = script("capture").readme_rows(datasets.captured())
    assert len(rows) == 8 and all(row in README.splitlines() for row in rows)


def test_text_files_have_unix_line_ends():
    assert all(b"\r" not in path.read_bytes() for path in DATA.rglob("*") if path.suffix in {".txt", ".json"})


def test_all_data_stay_small():
    assert sum(p.stat().st_size for p in DATA.rglob("*") if p.is_file()) < 10_000_000


def test_data_folder_of_an_installed_package(tmp_path, monkeypatch):
    """A wheel carries data/ inside the package."""
    (tmp_path / "lplab" / "data" / "digits").mkdir(parents=True)
    shutil.copy(DATA / "digits" / "digits.npz", tmp_path / "lplab" / "data" / "digits")
    monkeypatch.setattr(bundled, "__file__", str(tmp_path / "lplab" / "datasets" / "bundled.py"))
    assert datasets.data_folder.__wrapped__() == tmp_path / "lplab" / "data"


def test_missing_data_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "__file__", str(tmp_path / "lplab" / "datasets" / "bundled.py"))
    with pytest.raises(FileNotFoundError, match="lplab's data files are in neither"):
        datasets.data_folder.__wrapped__()


def test_importing_datasets_imports_numpy_alone():
    code = "import sys; from lplab import datasets; datasets.captured(); datasets.digits(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded and not {"torch", "safetensors", "numba", "plotly", "sklearn"} & set(loaded)


# ---- digits ----------------------------------------------------------------------------------------------------------


def test_digits():
    images, labels = datasets.digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.float32
    assert labels.shape == (1797,) and labels.dtype == np.int64
    sixteenths = images * 16
    assert np.array_equal(sixteenths, np.round(sixteenths)) and images.min() == 0 and images.max() == 1
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]  # as UCI tells it


def test_digits_are_fresh_arrays():
    datasets.digits()[0][:] = 7
    assert datasets.digits()[0].max() == 1


def test_digits_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.datasets")
    bunch = sklearn.load_digits()
    images, labels = datasets.digits()
    assert np.array_equal(images * 16, bunch.images) and np.array_equal(labels, bunch.target)


# ---- characters ------------------------------------------------------------------------------------------------------


def test_characters_are_clean():
    text = datasets.characters()
    assert 300_000 < len(text) < 500_000
    assert len(set(text)) < 100 and all(c == "\n" or " " <= c <= "~" for c in set(text))
    assert "  " not in text and "\n\n" not in text and "_" not in text
    assert text.startswith("Chapter 1\nSir Walter Elliot") and text.endswith("national importance.\n")
    assert re.findall(r"^Chapter (\d+)$", text, flags=re.M) == [str(n) for n in range(1, 25)]
    assert not re.search(r"gutenberg|copyright|http|@", text, flags=re.I)


def test_character_ids_spell_the_text():
    ids, vocabulary = datasets.character_ids()
    assert ids.dtype == np.uint8 and vocabulary == "".join(sorted(set(datasets.characters())))
    assert "".join(np.array(list(vocabulary))[ids]) == datasets.characters()


def test_a_debian_package_is_read_as_described(tmp_path):
    """make_sources on a package of the same build: ar, tar, R's lazy-load database, XDR strings."""
    import io
    import struct
    import tarfile
    import zlib

    make_sources = script("make_sources")
    lines = ["Persuasion", "", "by", "", "Chapter 1", "", "", "One _two_", "  three.", "", '"Four."', "", "Finis"]
    strings = b"".join(struct.pack(">2i", 0x40009, len(s)) + s.encode() for s in lines)
    xdr = b"X\n" + struct.pack(">4i", 3, 0x40200, 0x30500, 5) + b"UTF-8" + struct.pack(">2i", 16, len(lines)) + strings
    other = b"X\n" + struct.pack(">4i", 3, 0x40200, 0x30500, 5) + b"UTF-8" + struct.pack(">2i", 16, 0)
    database = b"".join(struct.pack(">I", len(part)) + zlib.compress(part) for part in (other, xdr))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz") as tar:
        info = tarfile.TarInfo("./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
        info.size = len(database)
        tar.addfile(info, io.BytesIO(database))
    members = {"debian-binary": b"2.0\n!", "data.tar.xz": archive.getvalue()}  # an odd length, to be padded
    ar = b"!<arch>\n"
    for name, content in members.items():
        ar += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
            + content
            + b"\n" * (len(content) % 2)
        )
    (tmp_path / "novel.deb").write_bytes(ar)
    assert make_sources.novel_lines(tmp_path / "novel.deb", "Persuasion") == lines
    make_sources.HERE = tmp_path
    (tmp_path / "characters").mkdir()
    made = make_sources.make_characters(tmp_path / "novel.deb")
    assert made.read_text() == 'Chapter 1\nOne two three.\n"Four."\n'
    with pytest.raises(SystemExit, match="holds no novel that begins with 'Emma'"):
        make_sources.novel_lines(tmp_path / "novel.deb", "Emma")


# ---- spoken words ----------------------------------------------------------------------------------------------------


def test_spoken_words_are_ten_words_and_the_voices_of_the_test_are_new():
    split = datasets.spoken_words()
    assert split.train_inputs.shape == (1600, 20, 40) and split.test_inputs.shape == (640, 20, 40)
    assert split.train_inputs.dtype == np.float32 and split.train_targets.dtype == np.int64
    assert np.bincount(split.train_targets).tolist() == [160] * 10
    assert np.bincount(split.test_targets).tolist() == [64] * 10
    assert datasets.words() == script("make_speech").WORDS
    assert abs(split.train_inputs.mean()) < 0.2 and 0.8 < split.train_inputs.std() < 1.2
    with np.load(DATA / "speech" / "words.npz") as stored:
        heard, new = (
            set(stored["voices"][stored[f"{part}_voices"] + 20 * (part == "test")]) for part in ("train", "test")
        )
        assert len(heard) == 20 and len(new) == 8 and not heard & new
        assert stored["train_frames"].dtype == np.uint8 and stored["train_frames"].max() == 40


def test_the_frames_are_those_of_the_formula():
    """A tone shows in the band around it, and silence at the bottom."""
    made = script("make_speech")
    samples = (made.FRAMES - 1) * made.HOP + made.FRAME
    tone = np.sin(2 * np.pi * 1000 * np.arange(samples) / made.RATE) * (np.arange(samples) < samples // 2)
    frames = made.log_mel(tone)
    edges = 700 * (10 ** (np.linspace(*(2595 * np.log10(1 + f / 700) for f in (100.0, 8000.0)), 22) / 2595) - 1)
    nearest = int(np.abs(edges[1:-1] - 1000).argmin())
    assert frames.shape == (20, 40) and frames[:, :15].argmax(axis=0).tolist() == [nearest] * 15
    assert frames.max() == 40 and (frames[:, -10:] == 0).all()


def test_noise_is_added_at_up_to_20_dB_below_the_speech():
    made = script("make_speech")
    sound = np.sin(np.arange(8000) / 5)
    noisy = [made.in_noise(sound, np.random.default_rng(seed)) for seed in range(50)]
    ratios = []
    for each in noisy:
        quiet = min(each[:200].var(), each[-200:].var())
        ratios.append(10 * np.log10(np.mean(sound**2) / quiet))
    assert min(ratios) > -2 and max(ratios) < 23 and max(ratios) - min(ratios) > 10


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng")
def test_espeak_says_the_words_again():
    made = script("make_speech")
    sound = made.spoken("left", "f1", "en-us", 140, 35)
    assert 0.2 < len(sound) / made.RATE < 0.9 and np.abs(sound).max() > 0.1
    assert not np.array_equal(sound, made.spoken("left", "m1", "en-us", 140, 35)[: len(sound)])


def test_without_espeak_the_script_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="apt-get install espeak-ng"):
        script("make_speech").spoken("yes", "f1", "en-us", 140, 35)
