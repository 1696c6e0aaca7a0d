"""Answers that are equal but for names, constants and the order of what may be exchanged: a hint, never a mark.

Short answers are equal by chance, and whoever learns from one book writes alike: only a talk shows who wrote what. So
nothing of this reaches marks, forms or students; it is one file for the instructor.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lplab.exercises.checks.judge import is_untouched
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model.exercise import Exercise

MIN_NODES = 40  # of a syntax tree: `return (low + high) / 2` has 12, and nearly everybody writes it
MAX_CHARACTERS = 50_000  # of a source: no student writes more, and chains are sorted again and again
EXCHANGEABLE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
TURNED = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}  # a > b is b < a


@dataclass(frozen=True)
class Alike:
    """Answers to one exercise that are alike.

    Args:
        exercise: its id.
        students: their numbers, sorted.
        is_solution: whether the solution that lplab shows is alike, too.
        same_text: whether they are equal character by character, blanks at the ends of lines apart.
    """

    exercise: str
    students: tuple[int, ...]
    is_solution: bool
    same_text: bool


def alike(exercise: Exercise, answers: Iterable[tuple[int, Iterable[Answer]]]) -> list[Alike]:
    """The groups of students with answers that are alike, and single ones whose answer is like the solution.

    Args:
        exercise: to which they are answers.
        answers: of each student, with the number of the student.
    """
    solution = Answer(exercise.solution, exercise.name)
    wanted = normal_form(exercise, solution)
    groups: dict[str, dict[int, set[str]]] = {}
    known: dict[Answer, tuple[str, str]] = {}  # form and text; a form takes milliseconds
    for student, some in answers:
        for answer in some:
            if answer not in known:
                known[answer] = "" if is_untouched(exercise, answer) else normal_form(exercise, answer), _text(answer)
            form, text = known[answer]
            if form:
                groups.setdefault(form, {}).setdefault(student, set()).add(text)
    alike = []
    for form, members in groups.items():
        is_solution = form == wanted
        if len(members) > 1 or is_solution:
            texts = {text for some in members.values() for text in some} | ({_text(solution)} if is_solution else set())
            alike.append(Alike(exercise.id, tuple(sorted(members)), is_solution, len(texts) == 1))
    return sorted(alike, key=lambda one: (-len(one.students), one.students))


def _text(answer: Answer) -> str:
    return "\n".join(line.rstrip() for line in answer.source.strip().splitlines() if line.strip())


def normal_form(exercise: Exercise, answer: Answer) -> str:
    """A digest that answers have in common which are alike; "" for one that is too short, or that cannot be read.

    >>> from lplab.exercises import get
    >>> exercise = get("01.1")
    >>> other = exercise.solution.replace("fraction", "part").replace("(1 + part)", "(part + 1)").replace("1.0", "3.0")
    >>> len({normal_form(exercise, Answer(text, "decode")) for text in (other, exercise.solution)})
    1
    """
    try:
        if len(answer.source) > MAX_CHARACTERS:
            return ""
        with warnings.catch_warnings(action="ignore"):
            tree, given = ast.parse(answer.source), ast.parse(exercise.stub_source)
        provided = {ast.dump(node) for node in given.body if getattr(node, "name", "") != exercise.name}
        modules = _modules(tree)
        tree.body = [node for node in tree.body if ast.dump(node) not in provided]
        tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        tree = _Plain(modules).visit(tree)
        if sum(1 for _ in ast.walk(tree)) < MIN_NODES:
            return ""
        tree = _Sorted(with_names=False).visit(tree)
        tree = _Renamed(tree).visit(tree)
        tree = _Sorted(with_names=True).visit(tree)
        for node in ast.walk(tree):
            if hasattr(node, "ctx"):
                node.ctx = ast.Load()
        return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the check tells the student
        return ""


def _modules(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, such as "np" for "numpy" and "sqrt" for "math.sqrt"."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


class _Plain(ast.NodeTransformer):
    """One spelling for what is the same: no docstrings and annotations, all numbers one number, ``x += 1`` in full."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = modules

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Numbers are one number, texts are one text; True, False and None stay."""
        if isinstance(node.value, bool) or node.value is None:
            return node
        return ast.Constant("text" if isinstance(node.value, str | bytes) else 1)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """A negative number is a number."""
        inner = self.visit(node.operand)
        negative = isinstance(node.op, ast.USub | ast.UAdd) and isinstance(inner, ast.Constant)
        return inner if negative else ast.UnaryOp(node.op, inner)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """What is computed from numbers alone, such as 2**-9, is a number."""
        left, right = self.visit(node.left), self.visit(node.right)
        both = isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
        return ast.Constant(1) if both else ast.BinOp(left, node.op, right)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """An imported name is what it stands for."""
        if node.id not in self.modules:
            return node
        module, _, name = self.modules[node.id].rpartition(".")
        return (
            ast.Attribute(ast.Name(f"module {module}", ast.Load()), name, ast.Load())
            if module
            else ast.Name(f"module {name}", ast.Load())
        )

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """A text that stands alone is a comment."""
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """``x += 1`` is ``x = x + 1``."""
        return self.visit(ast.Assign([node.target], ast.BinOp(node.target, node.op, node.value)))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """``x: int = 1`` is ``x = 1``."""
        return self.visit(ast.Assign([node.target], node.value)) if node.value else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Without annotations."""
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Without an annotation."""
        return ast.arg(node.arg)


class _Sorted(ast.NodeTransformer):
    """Operands that may be exchanged are in the order of their texts."""

    def __init__(self, with_names: bool) -> None:
        self.with_names = with_names

    def _key(self, node: ast.AST) -> str:
        return ast.dump(node if self.with_names else _Blind().visit(copy.deepcopy(node)))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A chain such as a + b + c is sorted as a whole."""
        if not isinstance(node.op, EXCHANGEABLE):
            return self.generic_visit(node)
        operands = sorted((self.visit(part) for part in _chain(node, type(node.op))), key=self._key)
        whole = operands[0]
        for part in operands[1:]:
            whole = ast.BinOp(whole, node.op, part)
        return whole

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``a and b``, ``a or b``."""
        return ast.BoolOp(node.op, sorted(map(self.visit, node.values), key=self._key))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a > b`` is ``b < a``; the sides of ``a == b`` are sorted."""
        sides = [self.visit(part) for part in (node.left, *node.comparators)]
        if len(sides) != 2:
            return ast.Compare(sides[0], node.ops, sides[1:])
        operator = node.ops[0]
        if type(operator) in TURNED:
            return ast.Compare(sides[1], [TURNED[type(operator)]()], [sides[0]])
        if isinstance(operator, ast.Eq | ast.NotEq):
            sides.sort(key=self._key)
        return ast.Compare(sides[0], node.ops, sides[1:])


def _chain(node: ast.expr, kind: type[ast.operator]) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        return [*_chain(node.left, kind), *_chain(node.right, kind)]
    return [node]


class _Blind(ast.NodeTransformer):
    """All names are one name."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Give the one name to every name but those of modules."""
        return ast.Name("_", ast.Load()) if not node.id.startswith("module ") else node


class _Renamed(ast.NodeTransformer):
    """Names that the answer itself binds are numbered in the order in which they appear."""

    def __init__(self, tree: ast.AST) -> None:
        self.bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not _is_read(node)}
        self.bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.numbers: dict[str, str] = {}

    def _number(self, name: str) -> str:
        return self.numbers.setdefault(name, f"v{len(self.numbers)}") if name in self.bound else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Give a name that the answer binds its number."""
        return ast.Name(self._number(node.id), ast.Load())

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Give a parameter its number."""
        return ast.arg(self._number(node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Give a function that the answer defines its number."""
        node.name = self._number(node.name)
        return self.generic_visit(node)


def _is_read(node: ast.Name) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
