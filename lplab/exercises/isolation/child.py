"""Runs a student's function in a process of its own. ``processes.py`` starts this file by its path.

``in_process.py`` imports it where there are no processes, for the functions that make the calls and report on them.

In on stdin, as lines of JSON: the request, then the arguments of each call, then an empty line. Out on stdout, as
lines of JSON: ``ready``, with the fences that stand; ``defined``, with what went wrong until then, if anything;
``value``, ``unusable`` or ``raised`` for each call as soon as it is made; ``stopped`` with a reason, if there is one;
``done``. What student code prints goes to stderr.
The pipe on stdin stays open: when it closes, the parent is gone, and this process ends.

Before ``ready`` it gives up, for good, the files and system calls that no answer needs, as far as the kernel can.

Needs the standard library, numpy and four files beside this one. It imports nothing of lplab, which holds the
solutions, but modules that the exercise allows.
"""

import __future__

import ast
import builtins
import contextlib
import importlib
import importlib.util
import json
import math
import os
import random
import re
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

if __name__ == "__main__":  # where the parent found numpy; last, so that nothing there hides the standard library
    sys.path.extend(sys.argv[1:])

import numpy

HERE = os.path.dirname(os.path.realpath(__file__))
FILE = "<answer>"  # the name of the student's source in tracebacks and warnings
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | __future__.annotations.compiler_flag
MAX_MESSAGE, MAX_LINE = 500, 100  # characters
MAX_INT_BITS = 1023  # of an integer in a result: every such one is a float, so that comparisons can compute with it


def load_sibling(name: str) -> types.ModuleType:
    """Load a module from this folder, which stays off the path: its files would hide Python's own."""
    spec = importlib.util.spec_from_file_location(f"lplab_{name}", os.path.join(HERE, f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guards, wire = map(load_sibling, ("guards", "wire"))


def main() -> None:
    """Read the request, make the calls, and exit without waiting for threads that student code may have started."""
    requests, results = private_channels()
    request, *calls = [json.loads(line) for line in iter(requests.readline, b"\n")]

    def send(*message: Any) -> None:
        results.write(json.dumps(message).encode("ascii") + b"\n")
        results.flush()

    if "random" in request["source"]:  # loading numpy.random takes time, and most answers do without
        random.seed(0)
        numpy.random.seed(0)
    packages = packages_of(request["allowed"])
    warnings.formatwarning = warned
    originals = guards.snapshot(numpy, math, builtins)
    guards.limit(request["cpu_seconds"], request["memory_mb"])
    fences = fence(packages)
    sys.addaudithook(guards.audit)
    # The first thread: one that came before the fence would stay outside of it.
    threading.Thread(target=exit_with_parent, args=(requests,), daemon=True).start()
    send("ready", time.process_time(), *fences)
    run_calls(request, calls, send)
    if name := guards.changed_builtins(originals):
        send("stopped", "tampering", replaced(name))
    with contextlib.suppress(ValueError):  # student code may have closed it
        sys.stderr.flush()
    send("done")
    os._exit(0)


def private_channels() -> tuple[BinaryIO, BinaryIO]:
    """Copies of the pipes on stdin and stdout. After this stdin is empty, and stdout goes where stderr goes.

    On Windows, too, this must come before a thread waits for the pipe: libraries that look at their stdin when they
    are loaded would wait with it (numpy/numpy#24290).
    """
    requests, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # one stream keeps the order of what is printed
    return requests, results


def packages_of(allowed: Sequence[str]) -> list[str]:
    """The folders of numpy and of the packages that the exercise allows, which are imported with all that they need."""
    foreign = [name for name in allowed if name.partition(".")[0] not in sys.stdlib_module_names]
    for name in foreign:
        with contextlib.suppress(ImportError):  # the answer that needs it will be told
            importlib.import_module(name)
    roots = [name.partition(".")[0] for name in foreign]
    modules = [numpy, *(sys.modules[root] for root in roots if root in sys.modules)]
    files = [str(module.__file__) for module in modules if getattr(module, "__path__", None) and module.__file__]
    return list(dict.fromkeys(os.path.dirname(os.path.realpath(file)) for file in files))


def fence(packages: Sequence[str]) -> list[str]:
    """Raise the fences that the kernel offers, and name them. One that it offers and refuses raises an OSError."""
    landlock, seccomp = map(load_sibling, ("landlock", "seccomp"))
    version = landlock.restrict(landlock.libraries(packages), [os.getcwd(), os.devnull])
    filtered = seccomp.restrict(writing=version > 0)
    for module in (landlock, seccomp):  # no answer has any use for them
        del sys.modules[module.__name__]
    return [f"Landlock {version}"] * bool(version) + ["seccomp"] * filtered


def exit_with_parent(requests: BinaryIO) -> None:
    """Wait until the pipe from the parent closes, then end this process."""
    requests.read(1)
    os._exit(1)


def run_calls(request: dict, calls: Sequence[list], send: Callable, prepare: Callable = str) -> None:
    """Define the function and make the calls, sending a line for each; stop at the first that ends the run.

    ``prepare`` turns the source into what is compiled: the source itself, or a tree of it to which something was added.
    """
    try:
        function, problem = define(request["source"], request["name"], request["allowed"], prepare)
    except BaseException as error:  # SystemExit too
        kind, *report = explain(error, request)
        send("stopped", *(report if kind == "stopped" else undefined(*report)))
        return
    skipped = undefined(*explain(problem, request)[1:]) if problem else ()
    send("defined", *skipped[1:])
    for forms in calls:
        try:
            message = call(function, forms)
        except BaseException as error:
            message = explain(error, request)
            if skipped and type(error) is NameError:  # the name is missing since the statement that binds it raised
                message = ("stopped", *skipped)
        send(*message)
        if message[0] == "stopped":
            return


def define(
    source: str, name: str, allowed: Sequence[str], prepare: Callable = str
) -> tuple[Callable, Exception | None]:
    """Run the source in a module of its own; the function ``name`` of it, and the first exception on the way to it.

    A statement that raises does not end it, as in a notebook, where the next cell runs all the same. Annotations are
    not evaluated.
    """
    try:
        prepared = prepare(source)
        tree = ast.parse(prepared) if isinstance(prepared, str) else prepared
        codes = [compile(ast.Module([one], []), FILE, "exec", FLAGS, dont_inherit=True) for one in tree.body]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, text = place(error, source)
        said = "" if isinstance(error, MemoryError) else words(error)  # Python 3.12 speaks of its parser's stack
        what = getattr(error, "msg", None) or said or "nested too deeply"
        raise guards.RefusedError("syntax", at(line, text) + what) from None
    module = sys.modules["answer"] = types.ModuleType("answer")  # dataclasses look it up by its name
    vars(module)["__builtins__"] = vars(builtins) | {"__import__": guards.importer(allowed)}
    problem = None
    for code in codes:
        try:
            run(code, vars(module))
        except (guards.RefusedError, MemoryError):
            raise
        except Exception as error:
            problem = problem or error
    function = vars(module).get(name)
    if function is None:
        raise problem or guards.RefusedError("definition", f"there is no function `{name}` in your code")
    if not callable(function):
        raise guards.RefusedError("definition", f"`{name}` is no function but of type {type(function).__name__}")
    return function, problem


def run(code: types.CodeType, namespace: dict[str, Any]) -> None:
    """Run a statement; one with ``await`` at top level, which a notebook allows, until it waits for something."""
    result = eval(code, namespace)
    if isinstance(result, types.CoroutineType):
        try:
            result.send(None)
        except StopIteration:
            return
        result.close()
        raise RuntimeError("this waits for something; an answer only computes")


def call(function: Callable, forms: list) -> tuple:
    """The message about one call: the result, and whether the arguments were changed in place."""
    arguments = [wire.decode(form) for form in forms]
    value = function(*arguments)
    try:
        kind, result = "value", wire.encode(value)
        text = json.dumps(result)
        if len(text) > 2 * wire.MAX_BYTES:
            raise wire.UnserializableError(f"a {type(value).__name__} of more than {wire.MAX_BYTES // 10**6} MB")
        for digits in re.findall(r'\{"int": "-?0x(\w+)"', text):  # in text of the student's quotes have a backslash
            if (bits := int(digits, 16).bit_length()) > MAX_INT_BITS:
                raise wire.UnserializableError(f"an integer of {bits:,} bits: no float is as large")
    except wire.UnserializableError as error:
        kind, result = "unusable", str(error)
        if isinstance(value, types.CoroutineType):
            value.close()  # or Python prints that nobody waited for it
    return kind, result, any(map(changed, forms, arguments))


def changed(form: Any, argument: Any) -> bool:
    """Whether ``argument`` is no longer what ``form`` was decoded to; a random generator may change."""
    if not isinstance(form, dict | list) or (isinstance(form, dict) and "seeded" in form):
        return False
    try:
        return json.dumps(wire.encode(argument)) != json.dumps(form)  # as text, in which NaN equals NaN
    except wire.UnserializableError:
        return True


# ---- what went wrong -------------------------------------------------------------------------------------------------


def explain(error: BaseException, request: dict) -> tuple:
    """The message about an exception that student code raised."""
    if isinstance(error, MemoryError):
        guards.release_reserve()
    line, text = place(error, request["source"])
    if isinstance(error, guards.RefusedError):
        return "stopped", error.reason, error.sentence
    if isinstance(error, SystemExit):
        return "stopped", "exit", at(line, text) + "this ends Python; use return to end a function"
    if isinstance(error, MemoryError):
        megabytes = request["memory_mb"]
        return "stopped", "memory", at(line, text) + f"this needs more than the {megabytes:,} MB of memory allowed"
    return "raised", type(error).__name__, words(error), line, text


def undefined(kind: str, message: str, line: int | None, text: str) -> tuple[str, str]:
    """The reason and sentence where an exception came up before the function was there to be called."""
    return "definition", f"{at(line, text)}{kind}: {message}"


def replaced(name: str) -> str:
    """The sentence where code replaced an attribute of a module."""
    return f"your code replaced {name}; leave what you import as it is"


def place(error: BaseException, source: str) -> tuple[int | None, str]:
    """The last line of the student's source that ``error`` passed through, and its text."""
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.split("\n")  # as Python counts them: other characters that end a line do not count
    return line, lines[line - 1].strip() if line and line <= len(lines) else ""


def at(line: int | None, text: str) -> str:
    """The location as the beginning of a sentence: the text, since the line number is not that in the notebook."""
    if line is None:
        return ""
    return f"at `{text[:MAX_LINE]}`: " if text else f"line {line}: "


def words(error: BaseException) -> str:
    """The message of an exception, which may be of the student's own make."""
    try:
        return str(error)[:MAX_MESSAGE]
    except Exception:
        return "(its message cannot be read)"


def warned(message: Any, category: type, filename: str, lineno: int, line: str | None = None) -> str:
    """A warning as a line: with its place in the student's source, never with the path of a library on this machine."""
    place = f"{FILE}:{lineno}: " if filename == FILE else ""
    return f"{place}{category.__name__}: {message}\n"


if __name__ == "__main__":
    main()
