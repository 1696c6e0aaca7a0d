"""What a statement of a notebook does to names: which it binds, which it uses, whose objects it may change.

Nothing is run. Where the syntax leaves open what happens, the answer is "may": an object that a call could change
counts as changed, and two names that could stand for one object count as one.
"""

from __future__ import annotations

import ast
import importlib
import symtable
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from lplab.exercises.isolation.guards import HARMLESS

COMPUTING = frozenset((*HARMLESS, "numpy"))  # modules that an answer may import
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")  # scopes that run with the statement around them
RANDOM = "<random>"  # stands for the state of the global random generators
ANYTHING = "<anything>"  # stands for every name
MAX_ROUNDS, MAX_LEARNED = 30, 30_000  # after which what is not known yet is taken for possible
OPAQUE = {"exec", "eval", "globals", "locals", "vars", "__import__"}  # builtins that may bind or change any name
PLAIN_DUNDERS = {"__init__", "__post_init__", "__repr__", "__str__", "__call__", "__new__", "__hash__", "__len__"}
CHANGING = {"next", "anext", "setattr", "delattr"}  # builtins that change what they are given
FRESH = {  # builtins whose results share nothing with what they are given
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "divmod", "float", "format", "hash", "hex",
    "id", "int", "isinstance", "issubclass", "len", "oct", "ord", "pow", "print", "range", "repr", "round", "str",
    "sum", "type", "callable", "hasattr", "input", "bytearray",
}  # fmt: skip
PURE_METHODS = {  # of Python's and numpy's types: change nothing, and give something new
    "all", "any", "argmax", "argmin", "argsort", "as_integer_ratio", "astype", "bit_length", "casefold", "clip", "copy",
    "count", "cumprod", "cumsum", "decode", "difference", "dot", "encode", "endswith", "find", "format", "fromhex",
    "hex", "index", "integers", "intersection", "is_integer", "isdigit", "issubset", "issuperset", "item", "join",
    "keys", "lower", "max", "mean", "min", "nonzero", "prod", "replace", "round", "rstrip", "split",
    "splitlines", "startswith", "std", "strip", "sum", "title", "tobytes", "tolist", "trace", "union", "upper", "var",
    "zfill",
}  # fmt: skip
CHANGING_METHODS = {  # that a call may be given in place of a function
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "reverse", "setdefault", "sort", "update", "write", "__setitem__", "__delitem__",
}  # fmt: skip
READING_METHODS = {  # change nothing, and give a part of the object
    "diagonal", "flatten", "get", "items", "ravel", "reshape", "squeeze", "swapaxes", "transpose", "values", "view",
}  # fmt: skip
IN_PLACE = {  # functions of numpy and of Python's library that change what they are given
    "at", "copyto", "fill_diagonal", "heapify", "heappop", "heappush", "heappushpop", "heapreplace", "iadd",
    "iand", "iconcat", "imul", "insort", "insort_left", "insort_right", "ior", "isub", "itruediv", "delitem", "setitem",
    "pack_into", "place", "put", "put_along_axis", "putmask", "shuffle", "update_wrapper", "nan_to_num",
}  # fmt: skip
VIEWS = {  # functions of numpy whose result may share its memory with what they are given
    "array", "array_split", "asanyarray", "asarray", "ascontiguousarray", "atleast_1d", "atleast_2d", "broadcast_to",
    "diagonal", "expand_dims", "flip", "fliplr", "flipud", "frompyfunc", "hsplit", "moveaxis", "nditer", "ravel",
    "reshape", "rot90", "split", "squeeze", "swapaxes", "transpose", "vectorize", "vsplit",
}  # fmt: skip
QUIET = {  # modules that show, time or describe what they are given, and leave it as it is
    "IPython", "ipywidgets", "json", "lplab", "matplotlib", "os", "pandas", "plotly", "pprint", "seaborn", "sys",
    "time", "timeit", "tqdm",
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The names of one statement.

    Args:
        binds: what it may bind when it runs.
        reads: what it uses when it runs.
        later: what the functions in it use when they are called.
        sets: what the functions in it bind with ``global`` when they are called.
    """

    binds: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def names_of(text: str) -> Names:
    r"""The names in the text of a statement. Annotations do not count: they are never evaluated in an answer.

    >>> names_of("def f(x: Vector, k=K):\n    global seen\n    seen = table[x]").later
    frozenset({'table'})
    """
    try:
        if sys.version_info >= (3, 12) and " for " in text:
            text = ast.unparse(_Comprehensions().visit(ast.parse(text)))
        top = symtable.symtable(f"from __future__ import annotations\n{text}", "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # parsed, yet no compiler takes it
        return Names(frozenset(getattr(node, "name", "") for node in ast.parse(text).body))
    found: dict[str, set[str]] = {"binds": set(), "reads": set(), "later": set(), "sets": set()}
    tables = [(top, True)]
    while tables:
        table, runs = tables.pop()
        for symbol in table.get_symbols():
            name = symbol.get_name()
            is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if table is top or symbol.is_global():
                if is_bound:
                    found["binds" if runs else "sets"].add(name)
                if symbol.is_referenced():
                    found["reads" if runs else "later"].add(name)
        for child in table.get_children():
            inside = child.get_type() != "function" or child.get_name() in COMPREHENSIONS
            if child.get_type() != "annotation":
                tables.append((child, runs and inside))
    if "annotations" not in text:
        found["binds"].discard("annotations")
    return Names(**{key: frozenset(value) for key, value in found.items()})


class _Comprehensions(ast.NodeTransformer):
    """Makes them generators, whose variables Python 3.12 and later do not count among those around them either."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def walk_now(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node that may run with it: the bodies of functions with a name are left out."""
    named = node.value if isinstance(node, ast.Assign) else None
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) or (isinstance(part, ast.Lambda) and part is named):
            waiting += getattr(part, "decorator_list", [])
            waiting += [value for value in (*part.args.defaults, *part.args.kw_defaults) if value is not None]
        elif isinstance(part, ast.AnnAssign):
            waiting += [part.target, *([part.value] if part.value else [])]
        else:
            waiting += ast.iter_child_nodes(part)


class Groups:
    """Names that may stand for one object, joined in groups.

    >>> groups = Groups()
    >>> groups.join(["a", "b"])
    >>> groups.of("a") == groups.of("b"), groups.of("c")
    (True, 'c')
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name that stands for the group."""
        while (parent := self._parents.get(name, name)) != name:
            self._parents[name] = self._parents.get(parent, parent)
            name = parent
        return name

    def join(self, names: Iterable[str]) -> None:
        """Make these names one group."""
        first, *others = map(self.of, names)
        for other in others:
            self._parents[self.of(other)] = self.of(first)


@dataclass
class Summary:
    """What a call of a function may do.

    Args:
        changes: the global names whose objects it may change.
        sets: the global names that it may bind.
        changes_self, changes_given: whether it may change the object that it is a method of; what it is given.
        uses: the functions and methods that it may call.
        hands_on: to each of these, the global names that it hands over, and "" for what it was given itself.
    """

    changes: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    changes_self: bool = False
    changes_given: bool = False
    uses: set[str] = field(default_factory=set)
    hands_on: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def learn(self, other: Summary, name: str) -> bool:
        """Add what a function does that this one calls; whether that is news."""
        before = len(self.changes), len(self.sets), self.changes_given
        self.changes |= other.changes
        self.sets |= other.sets
        if other.changes_given or other.changes_self:
            self.changes |= self.hands_on[name] - {""}
            self.changes_given |= "" in self.hands_on[name]
        return before != (len(self.changes), len(self.sets), self.changes_given)


@dataclass(frozen=True)
class Effect:
    """What a statement does to names beside those that it binds itself; objects are named by their groups.

    Args:
        sets: the names that functions bind which it may call.
        stores: the objects that it changes itself, as in ``table[3] = 1`` and ``table.append(1)``.
        calls: those that a function may change which it calls.
        foreign: those that it hands to a module that no answer may import, and that may change them.
    """

    sets: frozenset[str]
    stores: frozenset[str]
    calls: frozenset[str]
    foreign: frozenset[str]


class Effects:
    """What the statements of one notebook do to each other's names.

    Args:
        nodes: all simple statements and the heads of all others, functions whole.
    """

    def __init__(self, nodes: Sequence[ast.stmt]) -> None:
        self.imports: dict[str, str] = {}  # by name: the path of what is imported
        self.bound: set[str] = set()  # names that are bound otherwise
        self.functions: dict[str, Summary] = {}
        self.methods: dict[str, Summary] = {}
        self._later: dict[str, set[str]] = {}  # names that a function uses
        self._lazy: set[str] = set()  # names of iterators, which change when they are used
        self._generators: set[str] = set()
        self._values: dict[str, Summary] = {}  # of names that may stand for a function, or for what one has made
        self._numbers: set[str] = set()  # names of numbers and text, which nobody changes in place
        self._inside = {node: list(walk_now(node)) for node in nodes}
        for node in nodes:
            self._note_bindings(node)
        # Operators, loops and ``with`` may call functions of the notebook, too.
        self._has_operators = any(name[:2] == "__" for name in self.methods.keys() - PLAIN_DUNDERS)
        self.foreign = self._foreign_names([part for node in nodes for part in self._inside[node]], {})
        for node in nodes:
            self._note_functions(node)
        self._spread()
        self._numbers = self._names_of_numbers(nodes)
        self._groups = Groups()
        for node in nodes:
            for names in self._pairs(self._inside[node]):
                self._groups.join(names)
        for node in nodes:
            self._note_lazy(node)

    def group(self, name: str) -> str:
        """The group of names that may stand for the same object."""
        return self._groups.of(name)

    def of(self, node: ast.stmt) -> Effect:
        """What a statement does to names."""
        stores, calls, foreign, sets = set[str](), set[str](), set[str](), set[str]()
        for part in self._inside[node]:
            if isinstance(part, ast.Call):
                changed = self._changed_by(part)
                itself = self._roots(part.func.value) if isinstance(part.func, ast.Attribute) else set()
                stores |= changed & itself  # as of table.append(1)
                calls |= changed - itself
                foreign |= self._changed_outside(part)
            else:
                stores |= self._changed_by(part)
            for summary in self._called_by(part):
                calls |= summary.changes
                sets |= summary.sets
        groups = [frozenset(map(self.group, names)) for names in (stores, calls, foreign)]
        return Effect(frozenset(sets), *groups)

    # ---- what is known of names --------------------------------------------------------------------------------------

    def _note_bindings(self, node: ast.stmt) -> None:
        for part in self._inside[node]:
            if isinstance(part, ast.Import | ast.ImportFrom):
                self.imports.update(_imported(part))
            elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                self.bound.add(part.id)
            elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.bound.add(part.name)
                table = self.functions if part is node else self.methods
                table.setdefault(part.name, Summary())  # all are known before what they do is asked for
            elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Lambda):
                for target in part.targets:
                    self.functions.setdefault(getattr(target, "id", ""), Summary())

    def _names_of_numbers(self, nodes: Sequence[ast.stmt]) -> set[str]:
        values: dict[str, list[ast.expr | None]] = defaultdict(list)
        for node in nodes:
            for part in self._inside[node]:
                if isinstance(part, ast.Assign):
                    for target in part.targets:
                        values[getattr(target, "id", "")].append(part.value)
                elif isinstance(part, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                    values[getattr(part.target, "id", "")].append(part.value)
        stored = Counter(part.id for node in nodes for part in self._inside[node] if _is_stored(part))
        elsewhere = {name for summary in self.functions.values() for name in summary.sets}
        found = {name for name, some in values.items() if stored[name] == len(some)} - elsewhere
        for _ in range(MAX_ROUNDS):
            wrong = {name for name in found if not all(self._is_number(value, found) for value in values[name])}
            if not wrong:
                return found
            found -= wrong
        return set()

    def _is_number(self, value: ast.expr | None, numbers: set[str]) -> bool:
        match value:
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return True
            case ast.UnaryOp(operand=inner):
                return self._is_number(inner, numbers)
            case ast.BinOp(left=left, right=right):
                return self._is_number(left, numbers) and self._is_number(right, numbers)
            case ast.Name(id=name):
                return name in numbers
            case ast.Call(func=ast.Name(id=name)) if name not in self.bound | set(self.imports):
                return name in ("len", "int", "float", "round", "abs", "str", "bool")
            case ast.Call(func=func):
                return self._path(func).startswith("math.")
            case ast.Attribute():
                return self._path(value).startswith("math.")
        return False

    def _note_lazy(self, node: ast.stmt) -> None:
        for part in self._inside[node]:
            if isinstance(part, ast.Assign | ast.AnnAssign | ast.NamedExpr) and self._is_lazy(part.value):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                self._lazy |= {target.id for target in targets if isinstance(target, ast.Name)}

    def _is_lazy(self, value: ast.expr | None) -> bool:
        if isinstance(value, ast.Call):
            name = value.func.id if isinstance(value.func, ast.Name) else ""
            makers = ("iter", "map", "zip", "filter", "enumerate", "reversed", "open")
            is_builtin = name in makers and name not in self.bound
            return is_builtin or name in self._generators or self._path(value.func).startswith("itertools.")
        return isinstance(value, ast.GeneratorExp)

    def _foreign_names(self, nodes: Sequence[ast.AST], known: Mapping[str, str]) -> dict[str, str]:
        """The names of what comes from modules that no answer may import, each with its module."""
        found = dict(known)
        sources: dict[str, list[set[str]]] = defaultdict(list)
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, path in _imported(node):
                    if (root := path.partition(".")[0]) not in COMPUTING:
                        found[name] = root
            for target, value in _bindings(node):
                mentioned = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
                for part in ast.walk(target):
                    if _is_stored(part):
                        sources[part.id].append(mentioned)
        while True:
            more = {
                name: found[min(some[0] & set(found))]
                for name, some in sources.items()
                if name not in found and all(mentioned & set(found) for mentioned in some)
            }
            if not more:
                return found
            found |= more

    # ---- functions ---------------------------------------------------------------------------------------------------

    def _note_functions(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._note_function(self.functions, node.name, node)
        elif isinstance(node, ast.ClassDef):
            whole = self.functions.setdefault(node.name, Summary())
            used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not _is_stored(part)}
            self._later.setdefault(node.name, set()).update(used)
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._note_function(self.methods, inner.name, inner, is_method=True)
                    whole.uses.add(f".{inner.name}")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Lambda):
                    self._note_function(self.functions, target.id, node.value)
                elif isinstance(target, ast.Name):
                    mentioned = {name for part in ast.walk(node.value) for name in _called_names(part)}
                    self._values.setdefault(target.id, Summary()).uses.update(mentioned)

    def _note_function(
        self, table: dict[str, Summary], name: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        is_method: bool = False,
    ) -> None:  # fmt: skip
        inside = list(ast.walk(node))
        known = table.setdefault(name, Summary())
        own = [part.arg for part in inside if isinstance(part, ast.arg)]
        declared = {global_ for part in inside if isinstance(part, ast.Global) for global_ in part.names}
        local = ({*own, *(part.id for part in inside if _is_stored(part))}) - declared
        if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in inside):
            self._generators.add(name)
        outer, self.foreign = self.foreign, self._foreign_names(inside, self.foreign)
        groups = Groups()
        for names in self._pairs(inside):
            groups.join(names)
        received = {groups.of(argument) for argument in own[is_method:]}
        itself = {groups.of(argument) for argument in own[:is_method]}
        outside = {part.id for part in inside if isinstance(part, ast.Name)} - local
        if table is self.functions:
            self._later.setdefault(name, set()).update(outside)
        changed = {groups.of(one) for part in inside for one in self._changed_by(part)}
        known.changes |= {one for one in outside if groups.of(one) in changed} | (changed & {RANDOM, ANYTHING})
        known.changes_given |= bool(changed & received)
        known.changes_self |= bool(changed & itself)
        known.sets |= {part.id for part in inside if _is_stored(part)} & declared
        for part in inside:
            for used in _called_names(part):
                known.uses.add(used)
            if isinstance(part, ast.Call):
                given = {groups.of(one) for one in self._given(part)}
                for used in _called_names(part.func):
                    known.hands_on[used] |= {one for one in outside if groups.of(one) in given}
                    known.hands_on[used] |= {""} if given & (received | itself) else set()
        self.foreign = outer

    def _spread(self) -> None:
        """Tell each function what the functions do that it calls."""
        by_key = {**self._values, **self.functions, **{f".{name}": one for name, one in self.methods.items()}}
        users: dict[str, set[str]] = defaultdict(set)
        for key, summary in by_key.items():
            summary.uses &= set(by_key)
            for used in summary.uses:
                users[used].add(key)
        waiting, learned = deque(by_key), 0
        while waiting:
            key = waiting.popleft()
            learned += len(users[key])
            if learned > MAX_LEARNED:  # no student's functions are such a knot
                for summary in by_key.values():
                    summary.changes.add(ANYTHING)
                return
            waiting += [user for user in users[key] if by_key[user].learn(by_key[key], key)]

    def _called_by(self, node: ast.AST) -> Iterator[Summary]:
        """The functions of the notebook that may run where a node does; who names one may call it."""
        for name in _called_names(node):
            for table, key in ((self.methods, name[1:]), (self.functions, name), (self._values, name)):
                if (table is self.methods) == name.startswith(".") and key in table:
                    yield table[key]

    # ---- expressions -------------------------------------------------------------------------------------------------

    def _path(self, node: ast.expr) -> str:
        """What an expression such as ``np.random.rand`` names in a module, "" if it names nothing of one."""
        behind: list[str] = []
        while isinstance(node, ast.Attribute):
            behind.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports or node.id in self.bound:
            return ""
        return ".".join([self.imports[node.id], *behind])

    def _roots(self, node: ast.expr | None) -> set[str]:
        """The names whose objects the value of an expression may share."""
        match node:
            case ast.Name(id=name):
                return set() if name in self._numbers or self._path(node) else {name}
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                return set() if self._path(node) else self._roots(inner)
            case ast.Await(value=inner):
                return self._roots(inner)
            case ast.NamedExpr(target=target, value=inner):
                return self._roots(inner) | self._roots(target)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
                return self._all_roots(parts)
            case ast.Dict(values=parts):
                return self._all_roots(parts)
            case ast.IfExp(body=one, orelse=other):
                return self._roots(one) | self._roots(other)
            case ast.BinOp() if self._has_operators:
                return self._all_roots(_operands(node))
            case ast.BinOp(left=left, right=right):  # the sum of two lists has their parts
                return self._all_roots(side for side in (left, right) if isinstance(side, ast.List | ast.Tuple))
            case ast.ListComp(elt=part, generators=sources) | ast.SetComp(elt=part, generators=sources):
                return self._roots(part) | self._all_roots(source.iter for source in sources)
            case ast.GeneratorExp(elt=part, generators=sources) | ast.DictComp(value=part, generators=sources):
                return self._roots(part) | self._all_roots(source.iter for source in sources)
            case ast.Call():
                return self._roots_of_call(node)
        return set()

    def _all_roots(self, nodes: Iterable[ast.expr | None]) -> set[str]:
        return {name for node in nodes for name in self._roots(node)}

    def _given(self, call: ast.Call) -> set[str]:
        return self._all_roots([*call.args, *(keyword.value for keyword in call.keywords)])

    def _roots_of_call(self, call: ast.Call) -> set[str]:
        given, func = self._given(call), call.func
        if path := self._path(func):
            root, last = path.partition(".")[0], path.rpartition(".")[2]
            is_fresh = (root == "numpy" and last not in VIEWS) or root in ("math", "random", "statistics")
            return set() if is_fresh else given
        if isinstance(func, ast.Name):
            if func.id not in self.bound:
                return set() if func.id in FRESH else given
            return given | self._later.get(func.id, {func.id})
        if isinstance(func, ast.Attribute) and func.attr in PURE_METHODS and func.attr not in self.methods:
            return set()
        return given | self._roots(func)

    def _pairs(self, nodes: Iterable[ast.AST]) -> Iterator[set[str]]:
        """The groups of names that a node makes stand for one object, or for parts of it."""
        for node in nodes:
            pairs = [self._roots(target) | self._roots(value) for target, value in _bindings(node)]
            if isinstance(node, ast.Match):
                captured = {getattr(part, "name", None) for case in node.cases for part in ast.walk(case.pattern)}
                pairs.append(self._roots(node.subject) | {name for name in captured if name})
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_reading = node.func.attr in PURE_METHODS | READING_METHODS
                if not (is_reading or self._path(node.func) or self._module_of(node.func)):
                    pairs.append(self._roots(node.func.value) | self._given(node))
            yield from (pair for pair in pairs if len(pair) > 1)

    def _changed_by(self, node: ast.AST) -> set[str]:
        """The names whose objects one node changes by itself."""
        changed = self._all_roots(_operands(node)) if self._has_operators else set()
        match node:
            case ast.Subscript(value=inner, ctx=ast.Store() | ast.Del()):
                changed |= self._roots(inner)
            case ast.Attribute(value=inner, ctx=ast.Store() | ast.Del()):
                changed |= self._roots(inner)
            case ast.AugAssign(target=ast.Name(id=name)):
                changed |= {name}
            case ast.Name(id=name, ctx=ast.Load()):
                changed |= {name} & self._lazy
            case ast.Call():
                changed |= self._changed_by_call(node)
        return changed

    def _changed_by_call(self, call: ast.Call) -> set[str]:
        if self._module_of(call.func):
            return set()
        given, func = self._given(call), call.func
        handed = [part.value for part in call.args if isinstance(part, ast.Attribute) and part.attr in CHANGING_METHODS]
        written = self._all_roots(keyword.value for keyword in call.keywords if keyword.arg == "out")
        written |= self._all_roots(handed)  # as in map(table.append, values)
        if path := self._path(func):
            return self._changed_in_module(path, call, given) | written
        if isinstance(func, ast.Name):
            if func.id in self.functions:
                summary = self.functions[func.id]
                return written | (given | {func.id} if summary.changes_given else set())
            if func.id in self.bound:
                return given | {func.id}
            return {ANYTHING} if func.id in OPAQUE else written | (given if func.id in CHANGING else set())
        if not isinstance(func, ast.Attribute):
            return given | self._roots(func)
        changed, method = set(written), self.methods.get(func.attr)
        if method is not None:
            changed |= (given if method.changes_given else set()) | (
                self._roots(func.value) if method.changes_self else set()
            )
        elif func.attr not in PURE_METHODS | READING_METHODS:
            changed |= self._roots(func.value) | (given if func.attr in IN_PLACE else set())
        return changed

    def _changed_outside(self, call: ast.Call) -> set[str]:
        """What a call of a foreign function may change that is not a matter of showing things."""
        module = self._module_of(call.func)
        return self._given(call) | self._roots(call.func) if module and module not in QUIET else set()

    def _module_of(self, func: ast.expr) -> str:
        """The foreign module that a function comes from, "" if from none; also of ``plt.gca().plot``."""
        while isinstance(func, ast.Attribute | ast.Subscript | ast.Call):
            func = func.func if isinstance(func, ast.Call) else func.value
        return self.foreign.get(func.id, "") if isinstance(func, ast.Name) else ""

    @staticmethod
    def _changed_in_module(path: str, call: ast.Call, given: set[str]) -> set[str]:
        root, last = path.partition(".")[0], path.rpartition(".")[2]
        state = {RANDOM} if root == "random" or path.startswith("numpy.random.") else set()
        function = getattr(np, last, None) if root == "numpy" else None
        is_out_given = isinstance(function, np.ufunc) and len(call.args) > function.nin
        return given | state if last in IN_PLACE or is_out_given else state


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, with the path of what it stands for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module or '.'}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield alias.name.partition(".")[0], alias.name.partition(".")[0]


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The pairs of target and value of one node."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
            yield from ((target, targets[0]) for target in targets[1:])  # they are one object
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value


def _operands(node: ast.AST) -> list[ast.expr]:
    """What a node other than a call hands to methods with names such as ``__lshift__``."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Subscript(value=value) | ast.AugAssign(value=value) | ast.withitem(context_expr=value):
            return [value]
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value):
            return [value]
    return []


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _called_names(node: ast.AST) -> Iterator[str]:
    """The name that a node mentions, and ``.name`` for an attribute: both may be functions."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield f".{node.attr}"


@lru_cache(maxsize=256)
def star_names(module: str) -> frozenset[str]:
    """What ``from module import *`` binds, for numpy and the modules that every answer may import; else nothing.

    No other module is imported here: students name them.

    >>> "sqrt" in star_names("math"), star_names("lplab")
    (True, frozenset())
    """
    if module not in COMPUTING | {"numpy.linalg", "numpy.random"}:
        return frozenset()
    found = importlib.import_module(module)
    return frozenset(getattr(found, "__all__", [name for name in vars(found) if not name.startswith("_")]))
