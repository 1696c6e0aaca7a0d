"""Landlock, the Linux kernel's fence around files: a process gives up, for good, all but the paths that it names.

``child.py`` loads this file by its path; standard library only. No rights of root are needed. What a kernel does not
know yet is left out: rights over files exist since Linux 5.13, TCP since 6.7, signals and abstract sockets since 6.12.

Source: "Landlock: unprivileged access control", docs.kernel.org/userspace-api/landlock.html. The package ``landlock``
of PyPI (1.0.0.dev5) is a pre-release that knows neither TCP nor signals, and takes the errno of an earlier call for a
failure of this one; the child would also have to find it. So these are the three system calls themselves.
"""

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls; the same numbers on every architecture
SET_NO_NEW_PRIVS = 38  # of prctl
VERSION, PATH_BENEATH = 1, 1  # a flag of the first call, a type of rule of the second
WRITE_FILE, READ_FILE, READ_DIR, MAKE_FILE, REFER, TRUNCATE, IOCTL = (1 << bit for bit in (1, 2, 3, 8, 13, 14, 15))
FILE_RIGHTS = WRITE_FILE | READ_FILE | TRUNCATE  # of those that are granted, the ones that a file can have
READ = READ_FILE | READ_DIR
WRITE = WRITE_FILE | TRUNCATE | MAKE_FILE  # new files, but no folders, links or other names; nothing is removed
HERE = os.path.dirname(os.path.realpath(__file__))
LIBC: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# Folders in which lplab may be, and more that is not an answer's business.
PACKAGES = (
    "site-packages",
    "dist-packages",
)


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what a packed structure is from Python 3.19 on; the same bytes
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 where there is none.

    >>> abi() >= 0
    True
    """
    if sys.platform != "linux":
        return 0
    return max(0, LIBC.syscall(ctypes.c_long(CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(VERSION)))


def restrict(readable: Iterable[str], writable: Iterable[str]) -> int:
    """From now on this thread and those that it starts open no other paths than these and what is beneath them.

    Nor do they remove or rename anything, or, as far as the kernel can, connect by TCP or to abstract sockets, or send
    signals to other processes. Paths that do not exist are left out. Returns what :func:`abi` does. A kernel that
    offers Landlock and refuses it raises an OSError.
    """
    version = abi()
    if not version:
        return 0
    handled = (REFER - 1) | REFER * (version >= 2) | TRUNCATE * (version >= 3) | IOCTL * (version >= 5)
    attributes = _Ruleset(handled, 3 * (version >= 4), 3 * (version >= 6))
    size = 8 if version < 4 else 16 if version < 6 else 24  # bytes; older kernels know the first fields only
    ruleset = _checked("create_ruleset", CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size))
    for rights, paths in ((READ, readable), (READ | WRITE, writable)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _allow(ruleset, path, rights & handled)
    if LIBC.prctl(SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    _checked("restrict_self", RESTRICT_SELF, ctypes.c_int(ruleset))
    os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= FILE_RIGHTS
        rule = _PathBeneath(rights, folder)
        _checked("add_rule", ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), ctypes.byref(rule))
    finally:
        os.close(folder)


def _checked(name: str, number: int, *arguments: object) -> int:
    """One of the three calls; its last argument, flags, is always 0."""
    result = LIBC.syscall(ctypes.c_long(number), *arguments, ctypes.c_uint(0))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock_{name}: {os.strerror(ctypes.get_errno())}")
    return result


def libraries(packages: Iterable[str]) -> Iterator[str]:
    """What Python reads when an answer imports: its standard library, ``packages`` (folders), the system's libraries.

    Beside a package its folder of libraries is included. Folders of installed packages are not, nor the exercises.
    """
    yield from _entries(os.path.dirname(os.path.realpath(os.__file__)), PACKAGES)
    yield from (path for path in sys.path if path.endswith((".zip", "lib-dynload")))
    for package in packages:
        yield from _entries(package, ("exercises",))
        yield f"{package}.libs"
    yield from ("/etc/ld.so.cache", "/dev/urandom")
    base = os.path.join(sys.base_prefix, "lib")
    if base != "/usr/lib" and os.path.isdir(base):
        yield from (entry.path for entry in os.scandir(base) if ".so" in entry.name)
    inside = [f"/usr/lib/{getattr(sys.implementation, '_multiarch', '')}", "/usr/lib", "/lib"]
    for folder in ("/lib64", "/usr/lib64", next(filter(os.path.isdir, inside), "/usr/lib")):
        if not HERE.startswith(os.path.realpath(folder) + os.sep):
            yield folder


def _entries(folder: str, without: tuple[str, ...]) -> Iterator[str]:
    """``folder`` itself if it has none of the names in ``without``, else all the others in it."""
    found = [entry.name for entry in os.scandir(folder)]
    if set(found).isdisjoint(without):
        yield folder
    else:
        yield from (os.path.join(folder, name) for name in found if name not in without)
