"""The hub of a class: its values fit what was measured, and its image runs as any user, without a home folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[1]
PAGE = (PROJECT / "docs/hub.md").read_text("utf-8")
BYTES = {"M": 1e6, "G": 1e9}
SERVER = 97e6  # JupyterLab without a kernel, as the page says


def values():
    """The blocks of YAML on the page: for a hub, and for OpenShift."""
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def in_bytes(amount):
    return float(amount[:-1]) * BYTES[amount[-1]]


def test_each_lab_fits_into_the_memory_that_the_values_give_it():
    rows = re.findall(r"^\| (\d\d) \| .* \| ([\d,]+) MB \|$", PAGE, re.MULTILINE)
    hub = values()[0]["singleuser"]
    limits = {"default": in_bytes(hub["memory"]["limit"])}
    special = {
        name: in_bytes(profile["kubespawner_override"]["mem_limit"])
        for profile in hub["profileList"]
        if "kubespawner_override" in profile
        for name in re.findall(r"\d\d", profile["display_name"])
    }
    assert len(rows) >= 15 and special
    for lab, megabytes in rows:
        assert float(megabytes.replace(",", "")) * 1e6 + SERVER <= special.get(lab, limits["default"]), lab


def test_on_openshift_no_user_is_chosen():
    assert values()[1]["singleuser"]["uid"] is None and values()[1]["singleuser"]["fsGid"] is None
    hub = re.search(r" AS hub\n(.*?)\n\n", (PROJECT / "Dockerfile").read_text("utf-8"), re.DOTALL).group(1)
    assert "--gid 0" in hub and "chmod g=u /home/student" in hub and 'ENTRYPOINT ["with_home"]' in hub
    assert re.search(r"^USER \d+$", hub, re.MULTILINE), "a cluster cannot tell whether a name is root"


@pytest.mark.skipif(os.name == "nt", reason="a script for the image, which is Linux")
@pytest.mark.parametrize("home", ["", "/does/not/exist", None])
def test_there_is_a_home_folder_that_can_be_written(home, tmp_path):
    given = str(tmp_path) if home is None else home
    run = [PROJECT / "binder/with_home", "sh", "-c", 'touch "$HOME/mine" && echo "$HOME"']
    environment = {"PATH": os.environ["PATH"], "HOME": given, "TMPDIR": str(tmp_path)}
    said = subprocess.run(run, env=environment, text=True, capture_output=True, check=True).stdout.strip()
    assert (Path(said) / "mine").is_file() and (said == given) == (home is None)


ANY_USER = """
mount -o remount,bind,ro / && mount -t tmpfs tmpfs /tmp && cd /tmp || exit 99
echo "$3" > work.py
exec unshare --user --map-user=123456 --map-group=0 env -i PATH="$PATH" PYTHONPATH="$1" "$2" work.py
"""
WORK = """
import os, pwd
from lplab.exercises import check, progress
from lplab.hardware import accelerators
try:
    print(pwd.getpwuid(os.getuid()))
except KeyError:
    print("nobody knows", os.getuid(), os.getgid())
def decode(*fields):
    return 0
print(check("01.1", decode))
print(progress.progress_path(), accelerators.get("mine").name)
"""


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="Linux makes such a user")
def test_a_user_without_a_name_and_a_home_folder_has_checks_and_the_shipped_machine():
    arguments = [str(PROJECT), sys.executable, WORK]
    done = subprocess.run(["unshare", "-m", "sh", "-c", ANY_USER, "any", *arguments], text=True, capture_output=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"this user may not make such a container: {done.stderr.strip()}")
    assert "nobody knows 123456 0" in done.stdout, done.stderr
    assert "this user has no home folder: LPLAB_PROGRESS names a file" in done.stdout + done.stderr
    assert "Exercise 01.1: 0 of 8 examples right." in done.stdout and done.stdout.rstrip().endswith("None mine")
