"""Compressors as they are typed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from lplab.compression import DGC, QSGD, AdaComp, Dense, PowerSGD, ScaleCom, SignSGD, TopK, WarmUp, compressor_catalogue


@pytest.mark.parametrize(("text", "message"), [
    ("scalecom:chunk=abc", "chunk of ScaleCom takes a whole number or None, got 'abc'"),
    ("scalecom:chunk=1.5", "chunk of ScaleCom takes a whole number or None, got 1.5"),
    ("topk:density=x", "density of TopK takes a number, got 'x'"),
    ("lossless:shuffle=1", "shuffle of Lossless takes true or false, got 1"),
    ("dense:wire=3", "wire of Dense takes a word, got 3"),
    ("dgc:warm_up=1", "warm_up of DGC takes several numbers, got 1"),
    ("scalecom:chunk=0", "chunk must be from 1"),
    ("topk:density=0.1,density=0.2", "TopK takes density once, got it twice in 'topk:density=0.1,density=0.2'"),
    ("topk:", "a setting is missing in 'topk:': write name=value behind each colon and comma"),
    ("dense:,", "a setting is missing in 'dense:,'"),
    ("topk:density=0.1,", "a setting is missing in 'topk:density=0.1,'"),
    ("topk:,density=0.1", "a setting is missing in 'topk:,density=0.1'"),
    ("scalecom:chunk=10, ,beta=1", "a setting is missing in 'scalecom:chunk=10, ,beta=1'"),
    ("topk:density=", "density of TopK takes a number, got ''"),
    ("topk:=0.1", "TopK has no setting '=0.1'"),
    ("", "unknown compressor ''"),
    (":density=0.1", "unknown compressor ''"),
    (None, "a compressor is named by a text such as 'topk:density=0.01', got None"),
    (b"topk", "a compressor is named by a text such as 'topk:density=0.01', got b'topk'"),
])  # fmt: skip
def test_a_value_of_another_kind_is_one_clear_sentence(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        compressor_catalogue.get(text)


def test_signsgd_has_its_name():
    assert compressor_catalogue.get("signsgd:momentum=0.9") == SignSGD(momentum=0.9)
    with pytest.raises(ValueError, match="did you mean signsgd"):
        compressor_catalogue.get("signSGD")


def test_whole_numbers_are_numbers_and_none_is_none():
    assert compressor_catalogue.get("scalecom:chunk=none,beta=1") == ScaleCom(chunk=None, beta=1)
    assert compressor_catalogue.get("topk:density=1,error_feedback=false").error_feedback is False


@pytest.mark.parametrize("name", compressor_catalogue.names())
def test_every_setting_can_be_typed_as_its_default(name):
    made = compressor_catalogue.get(name)
    values = {key: value for key, value in vars(made).items() if not isinstance(value, tuple)}
    settings = ",".join(f"{key}={value}" for key, value in values.items())
    assert compressor_catalogue.get(f"{name}:{settings}" if settings else name) == made


@pytest.mark.parametrize(("kind", "settings"), [
    (ScaleCom, {"chunk": "x"}), (ScaleCom, {"beta": None}), (AdaComp, {"bin": "50"}), (TopK, {"density": "1%"}),
    (PowerSGD, {"rank": [1]}), (QSGD, {"levels": True}), (QSGD, {"levels": 1.5}), (DGC, {"warm_up": 0.1}),
    (DGC, {"nesterov": "no"}), (Dense, {"wire": 16}), (WarmUp, {"compressor": "dense", "dense_steps": 1}),
])  # fmt: skip
def test_a_setting_of_another_kind_is_told_in_python_too(kind, settings):
    name = next(iter(settings))
    with pytest.raises(ValueError, match=rf"^{name} of {kind.__name__} takes "):
        kind(**settings)


def test_numbers_of_numpy_are_numbers():
    assert ScaleCom(chunk=np.int64(50), beta=np.float32(0.5)).chunk == 50


def test_own_compressors_may_have_settings_of_any_kind():
    @dataclass(frozen=True)
    class Own(Dense):
        anything: Any = None
        choice: Literal["a", "b"] = "a"
        function: Callable[[int], int] | None = None

    assert Own(anything=[3], function=abs).function is abs
    with pytest.raises(ValueError, match="function of Own takes Callable or None, got 3"):
        Own(function=3)


def test_hints_that_cannot_be_looked_up_are_not_asked():
    @dataclass(frozen=True)
    class Own(Dense):
        other: "NotImported" = 1  # noqa: F821

    assert Own(other="x").other == "x"
