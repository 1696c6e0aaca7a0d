"""A limit on the steps of student code, for where nothing outside of it can stop it. See :mod:`.in_process`.

A step is one pass through the body of a function, of a loop or of a comprehension. :func:`counted` adds to the source a
call in front of each such body, so that whatever runs without end meets one again and again. What it adds takes no line
of its own, and lines keep their numbers.
"""

import ast
import time
from typing import Any

STEP = "__step__"  # the added call; a name that ends like this is not changed inside a class
PER_LOOK = 64  # steps between two looks at the clock


class OverTheLimitError(BaseException):
    """The limits are spent. No Exception, so that ``except Exception`` lets it pass; what catches it meets the next."""


class StepLimit:
    """Counts the steps of a run; after ``steps`` of them, or ``seconds`` of computing, each further one raises.

    ``spent`` says in words which limit was met; "" while none is.

    >>> limit = StepLimit(steps=2, seconds=60)
    >>> limit.step(), limit.step(), limit.spent
    (True, True, '')
    >>> limit.step()
    Traceback (most recent call last):
    lplab.exercises.isolation.steps.OverTheLimitError: 2 steps
    >>> limit.spent
    '2 steps'
    """

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.done, self.spent = 0, ""
        self._begun = time.process_time()

    def step(self) -> bool:
        """Count one step. True, so that it can stand in front of ``and``; OverTheLimitError where a limit is met."""
        self.done += 1
        if self.done > self.steps:
            self.spent = f"{self.steps:,} steps"
        elif self.done % PER_LOOK == 0 and time.process_time() - self._begun > self.seconds:
            self.spent = f"{self.seconds:g} s of computing"
        if self.spent:
            raise OverTheLimitError(self.spent)
        return True


def counted(source: str) -> ast.Module:
    r"""The tree of ``source`` in which each function, loop and comprehension calls ``__step__`` in front of its body.

    A source that is no Python raises what :func:`ast.parse` does, such as a SyntaxError.

    >>> print(ast.unparse(counted("def total(x):\n    return sum(v for v in x)")))
    def total(x):
        __step__()
        return sum((v for v in x if __step__()))
    """
    tree = ast.parse(source)
    return ast.fix_missing_locations(_Counting().visit(tree))


class _Counting(ast.NodeTransformer):
    def _with_body(self, node: Any) -> Any:
        self.generic_visit(node)
        of_a_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        first = int(of_a_function and ast.get_docstring(node, clean=False) is not None)  # a docstring stays the first
        node.body.insert(
            first, ast.copy_location(ast.Expr(_call()), node.body[-1 if first == len(node.body) else first])
        )
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_For = visit_AsyncFor = visit_While = _with_body

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        node.body = ast.copy_location(ast.BoolOp(ast.And(), [_call(), node.body]), node.body)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.ifs.insert(0, ast.copy_location(_call(), node.iter))
        return node


def _call() -> ast.Call:
    return ast.Call(ast.Name(STEP, ast.Load()), [], [])
