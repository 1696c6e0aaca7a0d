"""A hostile class: answers that try to read, write, kill, start processes, connect, overload or forge.

Each is a body of ``attack()`` behind `PRELUDE`, which takes Python's own guards down first. What an attack brings home
it returns; the answer raises an error with it, so that it stands in the marks if there is anything. Forgers return it
as their result. ``HOME``, ``MATE`` (a classmate's notebook), ``OUT`` (the marks), ``TEMP`` and ``LPLAB`` are filled in.
"""

import textwrap
from dataclasses import dataclass

PRELUDE = """
import numpy
_import = numpy.__builtins__["__import__"]
os, sys, ctypes, time, threading, signal, json = map(_import, "os sys ctypes time threading signal json".split())
sys.modules["lplab_guards"].audit.__code__ = (lambda event, arguments: None).__code__
libc = ctypes.CDLL(None, use_errno=True)
def called(result):
    return f"{result} {os.strerror(ctypes.get_errno())}" if result != -1 else ""
def every_pipe(text):
    for number in range(3, 64):
        try:
            os.write(number, text)
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Hostile:
    """One answer: the body of its attack, and what kind of harm it means."""

    name: str
    kind: str
    body: str

    def source(self, function: str, arguments: str, **places: str) -> str:
        """The answer as a student would hand it in."""
        body = self.body
        for name, value in places.items():
            body = body.replace(name, repr(value))
        attack = f"def attack():\n{textwrap.indent(body, '    ')}\n"
        end = "return attack()" if self.kind == "forge" else "raise RuntimeError(f'loot: {attack()}')"
        return f"{PRELUDE}{attack}def {function}({arguments}):\n    {end}\n"


def of(kind: str, **bodies: str) -> list[Hostile]:
    """Hostile answers of one kind."""
    return [Hostile(name, kind, textwrap.dedent(body).strip()) for name, body in bodies.items()]


# x86-64 and aarch64 number raw system calls differently.
RAW = "arm = os.uname().machine == 'aarch64'\n"

READ = of(
    "read",
    a_classmates_answer="return open(MATE).read()",
    by_the_command_line_of_the_parent="return open(f'/proc/{os.getppid()}/cmdline').read()",
    the_environment_of_the_parent="return open(f'/proc/{os.getppid()}/environ').read()",
    the_memory_of_the_parent="""
    for line in open(f"/proc/{os.getppid()}/maps"):
        return line""",
    open_files_of_the_parent="""
    found = []
    for number in range(64):
        try:
            found.append(os.read(os.open(f"/proc/{os.getppid()}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK), 9))
        except OSError:
            pass
    assert found
    return found""",
    where_the_parent_works="return os.readlink(f'/proc/{os.getppid()}/cwd')",
    the_home_folder="return open(HOME + '/exam.txt').read()",
    names_in_the_home_folder="return os.listdir(HOME)",
    passwords="return open('/etc/passwd').read()[:40]",
    relative_to_a_folder="""
    folder = os.open(HOME, os.O_PATH)
    return os.read(os.open("exam.txt", os.O_RDONLY, dir_fd=folder), 99)""",
    behind_pythons_back="""
    libc.fopen.restype = ctypes.c_void_p
    file = libc.fopen((HOME + "/exam.txt").encode(), b"r")
    buffer = ctypes.create_string_buffer(99)
    assert file
    libc.fread(buffer, 1, 99, ctypes.c_void_p(file))
    return buffer.value""",
    by_numpy="return bytes(numpy.fromfile(MATE, dtype='u1'))",
    by_a_memory_map="return bytes(numpy.memmap(MATE, dtype='u1', mode='r')[:99])",
    by_a_symbolic_link="os.symlink(MATE, 'mine'); return open('mine').read()",
    by_a_hard_link="os.link(MATE, 'mine'); return open('mine').read()",
    by_taking_the_file_away="os.rename(MATE, 'mine'); return open('mine').read()",
    through_the_root_of_the_process="return open('/proc/self/root' + MATE).read()",
    through_the_folder_above="return os.listdir('..')",
    through_a_change_of_folder="os.chdir(HOME); return open('exam.txt').read()",
    by_a_loader="""
    loader = _import("importlib.machinery", fromlist=["x"]).SourceFileLoader("x", MATE)
    return loader.get_data(MATE)""",
    by_a_traceback="return _import('linecache').getlines(MATE)[0]",
    by_a_data_base="""
    sqlite3 = _import("sqlite3")
    return sqlite3.connect(f"file:{HOME}/exam.db?mode=ro", uri=True).execute("select * from t").fetchall()""",
    by_an_archive="return _import('zipfile').ZipFile(HOME + '/exam.zip').read('exam.txt')",
    the_environment="return {k: v for k, v in os.environ.items() if 'SECRET' in v} or 1 / 0",
    the_first_environment="""
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
    names = list(iter((environ[i] for i in range(1000)).__next__, None))
    return [name for name in names if b"SECRET" in name] or 1 / 0""",
    the_memory_by_the_kernel=RAW
    + """
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
there, here = Piece(id(0), 8), Piece(ctypes.addressof(buffer), 8)
ref = ctypes.byref
result = libc.process_vm_readv(os.getppid(), ref(here), 1, ref(there), 1, 0)
assert result != -1
return buffer.raw""",
    by_a_debugger="assert libc.ptrace(16, os.getppid(), 0, 0) == 0; return 'attached'",
    by_a_copy_of_a_descriptor="""
    process = libc.syscall(434, os.getppid(), 0)
    assert process >= 0
    return os.read(libc.syscall(438, process, 0, 0), 9)""",
    by_a_newer_call="""
    how = (ctypes.c_uint64 * 3)(0, 0, 0)
    file = libc.syscall(437, -100, MATE.encode(), ctypes.byref(how), 24)
    assert file >= 0
    return os.read(file, 99)""",
    the_solution_in_its_file="""
    for file in os.scandir(LPLAB + "/exercises/lab01"):
        if file.name.endswith(".py"):
            return open(file.path).read()[:99]""",
    the_solution_by_its_name="return open(LPLAB + '/exercises/lab01/round_e4m3.py').read()[:99]",
    the_solution_by_import="""
    sys.path.insert(0, os.path.dirname(LPLAB))
    return _import("lplab.exercises.model.exercise_catalogue", fromlist=["x"]).get("01.2").solution""",
    the_solution_in_the_notebook="return open(os.path.dirname(LPLAB) + '/labs/README.md').read()[:99]",
)

WRITE = of(
    "write",
    into_the_home_folder="open(HOME + '/new.txt', 'w').write('x'); return 'written'",
    over_a_classmate="open(MATE, 'w').write('x'); return 'written'",
    to_the_end_of_a_classmate="open(MATE, 'a').write('x'); return 'written'",
    cutting_a_classmate_off="os.truncate(MATE, 3); return 'cut'",
    closing_a_classmate="os.chmod(MATE, 0); return 'closed'",
    closing_a_folder_by_its_number="os.fchmod(os.open(HOME, os.O_PATH), 0); return 'closed'",
    changing_a_date="os.utime(MATE, (0, 0)); return 'changed'",
    changing_an_owner="os.chown(MATE, 12345, 12345); return 'changed'",
    naming_a_file="os.setxattr(MATE, 'user.x', b'1'); return 'named'",
    removing_a_classmate="os.unlink(MATE); return 'removed'",
    renaming_a_classmate="os.rename(MATE, MATE + '.old'); return 'renamed'",
    making_a_folder="os.mkdir(HOME + '/folder'); return 'made'",
    making_a_link="os.symlink('/etc', HOME + '/link'); return 'made'",
    making_a_pipe="os.mkfifo(HOME + '/pipe'); return 'made'",
    marks_of_its_own="open(OUT + '/marks.csv', 'w').write('me,6'); return 'written'",
    where_shared_memory_is="open('/dev/shm/lplab-hostile', 'w').write('x'); return 'written'",
    where_others_work="open(TEMP + '/note', 'w').write('x'); return 'written'",
    behind_pythons_back_too="""
    file = libc.open((HOME + "/new.txt").encode(), os.O_WRONLY | os.O_CREAT, 0o600)
    return called(file) or 1 / 0""",
    by_a_compiled_file="_import('py_compile').compile(os.__file__, cfile=HOME + '/new.pyc'); return 'written'",
    into_the_standard_library="open(os.__file__, 'a').write('#'); return 'written'",
    into_the_library_of_the_check="open(LPLAB + '/exercises/isolation/child.py', 'a').write('#'); return 'written'",
)

KILL = of(
    "kill",
    the_parent="os.kill(os.getppid(), 9); return 'killed'",
    the_parent_politely="os.kill(os.getppid(), signal.SIGINT); return 'interrupted'",
    the_parent_behind_pythons_back="return called(libc.kill(os.getppid(), 9)) or 1 / 0",
    everybody="return called(libc.kill(-1, 9)) or 1 / 0",
    the_group_of_the_parent="return called(libc.killpg(os.getpgid(os.getppid()), 9)) or 1 / 0",
    a_thread_of_the_parent=RAW
    + "return called(libc.syscall(131 if arm else 234, os.getppid(), os.getppid(), 9)) or 1 / 0",
    by_a_queue=RAW
    + "return called(libc.syscall(138 if arm else 129, os.getppid(), 9, ctypes.create_string_buffer(128))) or 1 / 0",
    by_a_descriptor="""
    process = libc.syscall(434, os.getppid(), 0)
    return called(libc.syscall(424, process, 9, None, 0)) or 1 / 0""",
    by_the_owner_of_a_pipe="""
    fcntl = _import("fcntl")
    fcntl.fcntl(2, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(2, 10, 9)
    fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_ASYNC)
    return 'owned'""",
    by_other_limits="_import('resource').prlimit(os.getppid(), 0, (1, 1)); return 'limited'",
    the_priority_of_the_parent="os.setpriority(os.PRIO_PROCESS, os.getppid(), 19); return 'slowed'",
    from_the_thread_outside="""
    # The thread that waits for the parent must not stand outside of the fence.
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)
    found = []
    def inside(number):
        found.append(libc.open(MATE.encode(), 0))
    keep = handler(inside)
    libc.signal(10, keep)
    others = [thread.native_id for thread in threading.enumerate() if thread is not threading.main_thread()]
    for other in others:
        libc.syscall(131 if os.uname().machine == "aarch64" else 234, os.getpid(), other, 10)
    time.sleep(0.2)
    assert any(file >= 0 for file in found)
    return found""",
)

START = of(
    "start",
    a_fork="return os.fork()",
    a_fork_behind_pythons_back="return called(libc.fork()) or 1 / 0",
    a_raw_fork=RAW + "return called(libc.syscall(220 if arm else 56, 17, 0, 0, 0, 0)) or 1 / 0",
    a_newer_fork="""
    arguments = (ctypes.c_uint64 * 8)(0, 0, 0, 0, 17, 0, 0, 0)
    return called(libc.syscall(435, ctypes.byref(arguments), 64)) or 1 / 0""",
    a_bomb="""
    while True:
        os.fork()""",
    a_daemon="""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)
    return 'away'""",
    a_shell="assert os.system('echo here > ' + HOME + '/new.txt') == 0; return 'run'",
    a_program="return _import('subprocess').run(['id'], capture_output=True).stdout",
    a_program_by_the_private_way="""
    arguments = [b"/bin/sleep", b"30"], [b"/bin/sleep"], True, (), None, None, -1, -1, -1, -1, -1, -1, 3, 4
    return _import("_posixsubprocess").fork_exec(*arguments, True, True, 0, None, None, None, -1, None, False)""",
    a_spawned_program="return os.posix_spawn('/bin/sleep', ['sleep', '30'], {})",
    another_program_here="os.execv('/bin/echo', ['echo', 'passed'])",
    another_program_by_a_descriptor="os.execve(os.open('/bin/echo', os.O_RDONLY), ['echo', 'passed'], {})",
    a_pool="return _import('multiprocessing').Pool(2).map(abs, [1])",
)

CONNECT = of(
    "connect",
    to_this_machine="return _import('socket').create_connection(('127.0.0.1', 9), timeout=1)",
    a_server="server = _import('socket').socket(); server.bind(('', 0)); return server.getsockname()",
    by_datagrams="""
    socket = _import("socket")
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))""",
    an_abstract_socket="socket = _import('socket'); socket.socket(socket.AF_UNIX).bind('\\0mine'); return 'bound'",
    a_pair="return _import('socket').socketpair()",
    by_the_ring="return called(libc.syscall(425, 8, ctypes.create_string_buffer(120))) or 1 / 0",
    a_raw_socket=RAW + "return called(libc.syscall(198 if arm else 41, 16, 3, 0)) or 1 / 0",
    keys_of_the_kernel="""
    number = 217 if os.uname().machine == "aarch64" else 248
    return called(libc.syscall(number, b"user", b"note", b"hi", 2, -3)) or 1 / 0""",
    memory_that_stays="return called(libc.shmget(4711, 4096, 0o1600)) or 1 / 0",
)

OVERLOAD = of(
    "overload",
    loops="""
    while True:
        pass""",
    loops_without_its_timer="""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass""",
    loops_with_a_new_start="""
    signal.setitimer(signal.ITIMER_PROF, 0)
    every_pipe(b'["ready", 1e9]\\n')
    while True:
        pass""",
    sleeps="time.sleep(1000)",
    sleeps_on_a_lock="lock = threading.Lock(); lock.acquire(); lock.acquire()",
    threads_by_the_thousand="""
    threading.stack_size(32768)
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()""",
    memory="return numpy.ones(1 << 34)[0]",
    memory_without_its_limit="""
    resource = _import("resource")
    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        pass
    return len([numpy.ones(1 << 26) for _ in range(40)])""",
    memory_in_files_of_its_own="""
    files = [os.memfd_create("x") for _ in range(50)]
    for file in files:
        os.write(file, bytes(60_000_000))
    return len(files)""",
    output="""
    while True:
        print("x" * 10000)""",
    a_full_disk="""
    for number in range(1000):
        with open(str(number), "wb") as file:
            file.write(bytes(60_000_000))
        if number:
            os.unlink(str(number - 1))
    return 'full'""",
    a_hidden_file="""
    files = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(50)]
    for file in files:
        os.write(file, bytes(60_000_000))
    return len(files)""",
    files_by_the_thousand="""
    while True:
        open(str(time.perf_counter_ns()), "w").close()""",
    large_results="""
    every_pipe(b'["value", "' + b"x" * 30_000_000 + b'", false]\\n')
    while True:
        every_pipe(b'["value", "' + b"x" * 30_000_000 + b'", false]\\n')""",
    results_of_many_parts="every_pipe(b'[\"value\", [' + b'[],' * 10_000_000 + b'0], false]\\n'); time.sleep(9)",
    a_line_without_end="""
    while True:
        every_pipe(b"x" * 1_000_000)""",
    nesting="every_pipe(b'[' * 1_000_000 + b'\\n'); time.sleep(9)",
    recursion="sys.setrecursionlimit(10**9); return attack()",
    priority="""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return 'first'""",
    crash="ctypes.string_at(0)",
)

FORGE = of(
    "forge",
    a_printed_pass="print('Exercise 01.2: passes all checks.'); os._exit(0)",
    a_printed_result="""
    print(json.dumps(["value", 448.0, False]), json.dumps(["done"]), sep="\\n", flush=True)
    os._exit(0)""",
    results_and_an_end="""
    for _ in range(5000):
        every_pipe(b'["value", 448.0, false]\\n')
    every_pipe(b'["done"]\\n')
    os._exit(0)""",
    an_early_end="every_pipe(b'[\"done\"]\\n'); time.sleep(9)",
    a_verdict="every_pipe(b'[\"passed\", 4]\\n'); time.sleep(9)",
    a_pickle="every_pipe(b\"cos\\nsystem\\n(S'touch x'\\ntR.\\n\"); time.sleep(9)",
    a_live_page='every_pipe(b\'["stopped", "exit", "<script>alert(1)</script>"]\\n\'); time.sleep(9)',
    an_integer_of_a_million_bits="""
    every_pipe(b'["value", {"int": "0x' + b"f" * 250_000 + b'"}, false]\\n' * 5000)
    os._exit(0)""",
    a_decimal_integer="every_pipe(b'[\"value\", 1' + b'0' * 4000 + b', false]\\n'); time.sleep(9)",
    a_generator='every_pipe(b\'["value", {"seeded": 3}, false]\\n\' * 5000); os._exit(0)',
    an_array_of_objects="""
    form = {"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="}
    every_pipe(json.dumps(["value", form, False]).encode() + b"\\n")
    time.sleep(9)""",
    an_array_of_nothing="""
    form = {"array": "<U0", "shape": [1 << 40], "data": ""}
    every_pipe(json.dumps(["value", form, False]).encode() + b"\\n")
    time.sleep(9)""",
    an_error_that_does_not_count='every_pipe(b\'["raised", "NotImplementedError", "", null, ""]\\n\'); os._exit(0)',
    another_judge="""
    main = sys.modules["__main__"]
    main.wire.encode = lambda value, depth=0: 448.0
    main.guards.changed_builtins = lambda originals: None
    main.call = lambda function, forms: ("value", 448.0, False)
    return 448.0""",
    another_numpy="numpy.asarray = numpy.equal = numpy.isnan = lambda *a, **k: True; return 448.0",
    a_value_that_equals_everything="""
    class Equal(float):
        __eq__ = __ne__ = __lt__ = __gt__ = lambda *a: True
        __hash__ = float.__hash__
    return Equal(0)""",
    a_trace="""
    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        return trace
    sys.settrace(trace)
    return 448.0""",
    a_last_wish="""
    atexit = _import("atexit")
    atexit.register(lambda: every_pipe(b'["value", 448.0, false]\\n'))
    class Last:
        def __del__(self):
            every_pipe(b'["value", 448.0, false]\\n')
    sys.modules["last"] = Last()
    sys.exit(0)""",
    expected_values_in_memory="""
    gc = _import("gc")
    found = [o for o in gc.get_objects() if isinstance(o, dict) and ("expected" in o or "solution" in o)]
    assert found
    return found""",
    expected_values_in_frames="""
    frame, names = sys._getframe(), []
    while frame:
        names += [name for name in frame.f_locals if name in ("expected", "solution", "reference")]
        frame = frame.f_back
    assert names
    return names""",
    closed_pipes="os.closerange(0, 64); time.sleep(9)",
)
CLASS = [*READ, *WRITE, *KILL, *START, *CONNECT, *OVERLOAD, *FORGE]
