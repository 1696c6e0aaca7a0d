"""seccomp, the Linux kernel's filter of system calls: a process gives up, for good, all calls but those it needs.

``child.py`` loads this file by its path; standard library only. No rights of root are needed. Calls that are on no list
fail as if they were not permitted; those that are newer than this list fail as if the kernel did not know them, so that
the C library takes an older one. Python and numpy compute, start threads and read files with what is left.

Source: "Seccomp BPF", docs.kernel.org/userspace-api/seccomp_filter.html; numbers: the kernel's ``unistd.h``. The
package ``pyseccomp`` of PyPI (0.1.2, of 2021) needs the system's libseccomp, which is not everywhere, and looks for it
by starting compilers, 0.1 s in each child. So this is the filter itself, 30 lines that compile two tables.
"""

import ctypes
import os
import struct
import sys
from typing import Any, NamedTuple

LIBC: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # how the filter is told the architecture
SECCOMP = {"x86_64": 317, "aarch64": 277}  # the call itself
SET_NO_NEW_PRIVS = 38  # of prctl
SET_MODE_FILTER, GET_ACTION_AVAIL = 1, 2  # operations
ALL_THREADS, KEEP_SPECULATION = 1, 4  # flags. The second: kernels before 5.16 slow a filtered process down otherwise
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
FIRST_NEW = 434  # from here on a call has one number everywhere
LOAD, AND, JUMP, JUMP_IF_EQUAL, JUMP_IF_FROM, RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06  # opcodes of BPF

Numbers = tuple[int, int | None]  # of a call on x86-64 and on aarch64; None where there is no such call
PLAIN: dict[str, Numbers] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "pread64": (17, 67), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233),
    "dup": (32, 23), "dup3": (292, 24), "nanosleep": (35, 101), "getitimer": (36, 102), "setitimer": (38, 103),
    "getpid": (39, 172), "exit": (60, 93), "exit_group": (231, 94), "uname": (63, 160), "ftruncate": (77, 46),
    "getcwd": (79, 17), "gettimeofday": (96, 169), "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getppid": (110, 173),
    "sigaltstack": (131, 132), "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133),
    "gettid": (186, 178), "futex": (202, 98), "sched_getaffinity": (204, 123), "set_tid_address": (218, 96),
    "set_robust_list": (273, 99), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "getdents64": (217, 61), "readlinkat": (267, 78), "newfstatat": (262, 79),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73), "getrandom": (318, 278),
    "membarrier": (324, 283), "statx": (332, 291), "rseq": (334, 293), "close_range": (436, 436),
    "faccessat2": (439, 439), "futex_waitv": (449, 449), "umask": (95, 166), "restart_syscall": (219, 128),
    "getcpu": (309, 168), "stat": (4, None), "lstat": (6, None), "access": (21, None), "dup2": (33, None),
    "poll": (7, None), "select": (23, None), "readlink": (89, None), "time": (201, None), "alarm": (37, None),
    "pause": (34, None), "arch_prctl": (158, None), "getpgrp": (111, None),
}  # fmt: skip
THREAD, NAMESPACES = 0x00010000, 0x7E020000  # flags of clone
WRITING = 0o1103  # flags of open: write, read and write, create, truncate
UNNAMED_FILE = 0o20000000  # O_TMPFILE: files that fill the disk and that nobody sees
FILE_COMMANDS = (0, 1, 2, 3, 4, 1030)  # of fcntl: copies and flags of a descriptor; none that sends signals
TERMINAL_QUESTIONS = (0x5401, 0x5413, 0x5450, 0x5451)  # of ioctl: is it a terminal, how large; close on exec
NAMING = (15, 16, 0x53564D41)  # of prctl: the name of a thread and of a piece of memory


class Condition(NamedTuple):
    """On an argument of a call, a word of 32 bits: ``word & mask`` is one of ``values``."""

    word: int
    mask: int
    values: tuple[int, ...]


EVERY_BIT = 0xFFFFFFFF


def conditional(pid: int, writing: bool) -> dict[Numbers, tuple[Condition, ...]]:
    """The calls that depend on their arguments, by their numbers; all conditions must hold.

    ``pid`` is the one process that may be sent signals; without ``writing`` no file can be opened to be written to.
    """
    flags = UNNAMED_FILE if writing else UNNAMED_FILE | WRITING
    itself = (Condition(0, EVERY_BIT, (pid,)),)
    return {
        (62, 129): itself,  # kill
        (234, 131): itself,  # tgkill
        (56, 220): (Condition(0, THREAD | NAMESPACES, (THREAD,)),),  # clone
        (302, 261): (Condition(4, EVERY_BIT, (0,)), Condition(5, EVERY_BIT, (0,))),  # prlimit64: read limits, set none
        (72, 25): (Condition(2, EVERY_BIT, FILE_COMMANDS),),  # fcntl
        (16, 29): (Condition(2, EVERY_BIT, TERMINAL_QUESTIONS),),  # ioctl
        (157, 167): (Condition(0, EVERY_BIT, NAMING),),  # prctl
        (2, None): (Condition(2, flags, (0,)),),  # open
        (257, 56): (Condition(4, flags, (0,)),),  # openat
    }


def available() -> bool:
    """Whether the kernel offers the filter, on an architecture whose numbers stand here.

    >>> available() in (True, False)
    True
    """
    if sys.platform != "linux" or os.uname().machine not in AUDIT or sys.maxsize < 2**32:
        return False
    action = ctypes.c_uint32(ERRNO)
    call = ctypes.c_long(SECCOMP[os.uname().machine])
    arguments = ctypes.c_uint(GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action)
    return LIBC.syscall(call, *arguments) == 0


def restrict(writing: bool) -> bool:
    """From now on this process, with all its threads, makes no other system calls than those above.

    Without ``writing`` it opens no file to write to. Returns what :func:`available` does. A kernel that offers the
    filter and refuses it raises an OSError.
    """
    if not available():
        return False
    filtering = program(os.uname().machine, os.getpid(), writing)
    code = ctypes.create_string_buffer(filtering, len(filtering))
    header = struct.pack("@HP", len(filtering) // 8, ctypes.addressof(code))
    if LIBC.prctl(SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    for flags in (ALL_THREADS | KEEP_SPECULATION, ALL_THREADS):
        arguments = ctypes.c_uint(SET_MODE_FILTER), ctypes.c_uint(flags), ctypes.c_char_p(header)
        if LIBC.syscall(ctypes.c_long(SECCOMP[os.uname().machine]), *arguments) == 0:
            return True
    raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def program(machine: str, pid: int, writing: bool) -> bytes:
    """The filter for an architecture as the kernel's classic BPF: instructions of 8 bytes.

    >>> len(program("aarch64", 1, writing=False)) % 8
    0
    """
    column = list(AUDIT).index(machine)
    numbers = [number for pair in PLAIN.values() if (number := pair[column]) is not None]
    code = [(LOAD, 0, 0, 4), (JUMP_IF_EQUAL, 1, 0, AUDIT[machine]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for place, known in enumerate(numbers):  # a match jumps behind the others, to where the call is allowed
        code.append((JUMP_IF_EQUAL, len(numbers) - place, 0, known))
    code += [(JUMP, 0, 0, 1), (RETURN, 0, 0, ALLOW)]
    for pair, conditions in conditional(pid, writing).items():
        number = pair[column]
        if number is not None:
            checks = [step for condition in conditions for step in _check(condition)]
            code += [(JUMP_IF_EQUAL, 0, len(checks) + 1, number), *checks, (RETURN, 0, 0, ALLOW)]
    code += [(JUMP_IF_FROM, 0, 1, FIRST_NEW), (RETURN, 0, 0, ERRNO | ENOSYS), (RETURN, 0, 0, ERRNO | EPERM)]
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def _check(condition: Condition) -> list[tuple[int, int, int, int]]:
    """Go on where the condition holds, else return that the call is not permitted."""
    steps = [(LOAD, 0, 0, 16 + 4 * condition.word), (AND, 0, 0, condition.mask)]
    last = len(condition.values)
    steps += [(JUMP_IF_EQUAL, last - place, 0, value) for place, value in enumerate(condition.values)]
    return [*steps, (RETURN, 0, 0, ERRNO | EPERM)]
