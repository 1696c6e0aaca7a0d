"""Which tests stay together on one worker, and in which order the groups run.

The tests of a file stay together, so that its module fixtures are made once. What must share more than a file (one
browser, one launch of ranks), or is too long for one worker, has a row in ``GROUPS``. The rows go by the tests' ids:
they are all that the main process of pytest-xdist knows of a test, and its mark ``xdist_group`` does nothing under
pytest 9.2.
"""

import re
from typing import Any

import pytest

# The first pattern that a test's id begins with gives its group.
GROUPS = {
    r"tests/browser/test_(?:site|mechanisms)\.py::(?!.*_in_a_notebook)": "pages",  # a browser without a JupyterLab
    r"tests/browser/": "browser",
    r"tests/parallel/test_(?:gloo|fsdp|launch|simulated|train_learners|sharded_update)\.py": "ranks",
}
# Long groups begin first, so that no worker ends long after the others. The rest follows in the order of collection.
FIRST = (
    "browser",
    "ranks",
    "pages",
    "tests/hardware/test_real_network.py",
    "tests/widgets/live/test_live_learners.py",
    "tests/labs/",
    "labs/",
    "tests/exercises/test_every_exercise.py",  # verdicts on mistakes are kept in the process for all its tests
    "tests/exercises/",
    "tests/claims/",
)


def group_of(nodeid: str) -> str:
    """The group of a test: a row's, else its file."""
    for pattern, group in GROUPS.items():
        if re.match(pattern, nodeid):
            return group
    return nodeid.partition("::")[0]


def rank(group: str) -> int:
    """A group's place in the order of the run, from 0."""
    return next((k for k, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the tests of a group together; the cells of a notebook keep their order, which pytest-randomly does not."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    for group, members in groups.items():
        if group.endswith(".ipynb"):
            members.sort(key=lambda item: getattr(item, "cell_num", float("inf")))
    items[:] = [item for group in sorted(groups, key=rank) for item in groups[group]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give out whole groups, in our order, and go on where a worker has crashed.

    xdist's own scheduler gives the test that has crashed a worker to the next one, until all have crashed; and it waits
    for ever for a new worker that has a single test, since a worker begins a test once it knows the next, or that none
    follows.
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def remove_node(self, node: Any) -> str | None:
            groups = self.assigned_work.get(node, {})
            crashed = next((test for tests in groups.values() for test, done in tests.items() if not done), None)
            for group, tests in list(groups.items()):
                if crashed in tests:
                    tests[crashed] = True
                if all(tests.values()):
                    del groups[group]
            super().remove_node(node)
            return crashed

        def _reschedule(self, node: Any) -> None:
            if node not in self.registered_collections:  # a new worker that still collects
                return
            super()._reschedule(node)
            while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._assign_work_unit(node)
            if not self.workqueue and not node.shutting_down:
                node.shutdown()

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
