"""A wrong name of a package says the right one, and every name that it recommends exists."""

import ast
import copy
import dataclasses
import doctest
import inspect
import pickle
import pkgutil
import re

import pytest

import lplab
from lplab.lookup import FEW, NAMES_ELSEWHERE, NamedSettings, wrong_name

for needed in ("torch", "plotly", "ipywidgets", "numba"):
    pytest.importorskip(needed)

PACKAGES = ["lplab", *(f"lplab.{name}" for name in lplab.__all__)]
WORDS = [(owner, name) for owner, words in NAMES_ELSEWHERE.items() for name in words]
INSTANCES = {  # of the classes among the owners
    "lplab.formats.Format": lambda: lplab.formats.get("e4m3fn"),
    "lplab.quantizers.Quantizer": lambda: lplab.quantizers.Quantizer("int4", lplab.quantizers.Amax()),
    "lplab.compression.Compressor": lambda: lplab.compression.get("scalecom:chunk=100"),
    "lplab.training.Recipe": lambda: lplab.training.recipes.get("fp8_2018"),
    "lplab.claims.Claim": lambda: lplab.claims.get("wang_2018_chunks"),
}
SETTINGS = {  # classes and a wrong keyword that a reader of their papers may try
    "compression.TopK": "ratio",
    "compression.SparseLoCo": "density",
    "compression.Dense": "bits",
    "quantizers.LUQ": "bits",
    "quantizers.KIVI": "group_size",
    "quantizers.Percentile": "q",
    "quantizers.DelayedScaling": "length",
    "hardware.Cluster": "chip",
}
CALL = re.compile(r"[A-Za-z_][\w.]*\([^()]*\)(?:\.\w+\([^()]*\))?")


def asked_of(owner: str) -> object:
    """The package, or an instance of the class."""
    return INSTANCES[owner]() if owner in INSTANCES else pkgutil.resolve_name(owner)


def called(call: str, owner: str) -> object:
    """What a text calls: a public name of the package; where a class is the owner, a method of it or a name of lplab.

    Each argument is checked: it must be a parameter of that name.
    """
    node = ast.parse(call, mode="eval").body
    while isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        node = node.func.value  # of get(name).quantize(x) the get(name)
    path = ast.unparse(node.func).split(".")
    found = lplab if owner in INSTANCES and len(path) > 1 else asked_of(owner)
    for part in path:
        public = getattr(found, "__all__", dir(found))  # a single module has none, nor has an instance
        assert part in public, f"{part} is not public in {found}"
        found = getattr(found, part)
    parameters = inspect.signature(found).parameters
    given = [*zip(parameters, (ast.unparse(arg) for arg in node.args), strict=False)]
    assert len(given) == len(node.args) and all(one == other for one, other in given), call
    more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    assert all(word.arg in parameters or more for word in node.keywords), call
    return found


@pytest.mark.parametrize(("owner", "name"), WORDS)
def test_every_name_that_is_recommended_exists(owner, name, capsys):
    text = NAMES_ELSEWHERE[owner][name]
    calls, commands = CALL.findall(text), re.findall(r"`lplab ([\w ]+)`", text)
    assert calls or commands
    for call in calls:
        assert callable(called(call, owner))
    for command in commands:
        from lplab.cli import main

        with pytest.raises(SystemExit) as end:
            main([*command.split(), "--help"])
        assert end.value.code == 0 and command in capsys.readouterr().out


@pytest.mark.parametrize(
    "call", ["naems()", "get(nmae)", "get(name, more)", "get(name, size=1)", "catalogue.get(name)"]
)
def test_a_name_or_an_argument_that_does_not_exist_is_noticed(call):
    with pytest.raises((AssertionError, AttributeError)):
        called(call, "lplab.formats")


@pytest.mark.parametrize(("owner", "name"), WORDS)
def test_a_name_of_others_is_refused_with_ours(owner, name):
    asked = asked_of(owner)
    with pytest.raises(AttributeError) as error:
        getattr(asked, name)
    assert str(error.value) == f"{owner} has no `{name}`: {NAMES_ELSEWHERE[owner][name]}"
    assert not hasattr(asked, name) and getattr(asked, name, None) is None


@pytest.mark.parametrize("name", PACKAGES)
def test_a_misspelt_name_is_answered_with_the_closest_or_all(name):
    package = pkgutil.resolve_name(name)
    right = package.__all__[-1]
    with pytest.raises(AttributeError, match=rf"^{name} has no `{right}q`: did you mean .*\b{right}\b.*\?$"):
        getattr(package, f"{right}q")
    names = package.__all__
    every = f"it has {names[0]}, " if len(names) <= FEW else rf"dir\({name}\) lists its {len(names)} names$"
    with pytest.raises(AttributeError, match=f"^{name} has no `qqqqq`: {every}"):
        package.qqqqq  # noqa: B018
    assert set(names) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"^{name} has no `__wrapped__`$"):
        package.__wrapped__  # noqa: B018


@pytest.mark.parametrize("name", PACKAGES[1:])
def test_what_asks_packages_for_names_goes_on(name):
    package = pkgutil.resolve_name(name)
    assert set(package.__all__) <= set(dir(package))
    found = doctest.DocTestFinder(exclude_empty=False).find(package, name)
    assert [test.name for test in found if test.name == name] == [name]
    right = package.__all__[-1]
    with pytest.raises(ImportError, match=rf"^{name} has no `{right}q`: did you mean .*\b{right}\b.*\?$") as error:
        exec(f"from {name} import {right}q", {})
    assert error.value.name == name
    inside = next(pkgutil.iter_modules(package.__path__)).name
    exec(f"from {name} import {inside}", {})


@pytest.mark.parametrize("owner", INSTANCES)
def test_classes_that_refuse_names_are_pickled_and_copied_and_refuse_others_as_python_does(owner):
    value = asked_of(owner)
    assert value == copy.deepcopy(value)
    if owner != "lplab.claims.Claim":  # which holds functions without a name
        assert value == pickle.loads(pickle.dumps(value))
    with pytest.raises(AttributeError, match=f"'{type(value).__name__}' object has no attribute 'qqqqq'"):
        value.qqqqq  # noqa: B018


def test_functions_of_packages_are_pickled_and_copied():
    value = lplab.formats.get
    assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)


@pytest.mark.parametrize(("name", "text"), [
    ("exercises.progress", "exercises.progress_of(lab) shows how far"),
    ("claims.bibliography", "claims.bibliography.PAPERS[key] is a paper, claims.bibliography.cite(key) its citation"),
])  # fmt: skip
def test_a_module_that_is_called_or_asked_for_an_entry_says_what_does_this(name, text):
    module = pkgutil.resolve_name(f"lplab.{name}")
    for use, what in ((module, "are not called"), (module.__getitem__, "have no entries")):
        with pytest.raises(TypeError, match=re.escape(f"lplab.{name} is a module, and modules {what}: {text}")):
            use("wang_2018")
    for path, argument in re.findall(r"([\w.]+)\((\w+)\)", text):
        assert argument in inspect.signature(pkgutil.resolve_name(f"lplab.{path}")).parameters
    for path in re.findall(r"([\w.]+)\[", text):
        assert "wang_2018" in pkgutil.resolve_name(f"lplab.{path}")
    assert inspect.ismodule(module) and pickle.loads(pickle.dumps(module)) is module


# ---- keywords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "wrong"), SETTINGS.items())
def test_a_wrong_setting_is_answered_with_those_that_there_are(name, wrong):
    kind = pkgutil.resolve_name(f"lplab.{name}")
    own = list(inspect.signature(kind).parameters)
    with pytest.raises(TypeError, match=f"^{kind.__name__} has no setting '{wrong}'; it has {', '.join(own)}$"):
        kind(**{wrong: 1})
    if dataclasses.is_dataclass(kind):
        assert own == [field.name for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("name", ["simulate", "simulate_local_steps"])
def test_a_wrong_setting_of_a_function_is_answered_with_those_that_there_are(name):
    function = getattr(lplab.hardware, name)
    own = [*inspect.signature(function).parameters][:-1]
    handed_on = "bucket_bytes, sharded, optimizer, utilization, fused, fall_back, measured_seconds"
    with pytest.raises(
        TypeError, match=f"^{name} has no setting 'chip'; it has workload, cluster, .*{handed_on}$"
    ) as error:
        function("resnet50", chip="v100", devices=64)
    assert str(error.value).partition("it has ")[2].startswith(", ".join(own))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'cluster'"):
        function("resnet50")
    assert pickle.loads(pickle.dumps(function)) is function
    assert function("resnet50", "h100", sharded=True, optimizer="adam").design.sharded


def test_what_settings_could_do_they_do():
    topk = lplab.compression.TopK(0.1)
    assert dataclasses.replace(topk, density=0.2).density == 0.2
    with pytest.raises(TypeError, match=r"^TopK has no setting 'ratio'"):
        dataclasses.replace(topk, ratio=0.2)
    with pytest.raises(TypeError, match="positional argument"):
        lplab.quantizers.Amax(1, 2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'format'"):
        lplab.quantizers.DelayedScaling(history=16)


def test_classes_of_users_take_what_their_own_init_takes():
    class Open(NamedSettings):
        def __init__(self, **any_name):
            self.given = any_name

    class Bare(NamedSettings):
        pass

    assert Open(ratio=1).given == {"ratio": 1} and Bare()
    for wrong in (lambda: Bare(ratio=1), lambda: Bare(1)):
        with pytest.raises(TypeError):
            wrong()


def test_a_class_that_lists_nothing_says_the_least():
    assert str(wrong_name("lplab.compression.Compressor", "_private", ())).endswith("has no `_private`")
