"""Compressors as they are typed."""

import pytest

from lplab.compression import QSGD, AdaComp, PowerSGD, ScaleCom, TopK, catalogue


@pytest.mark.parametrize(("text", "told"), [
    ("scalecom:chunk=abc", "ScaleCom's setting chunk takes a whole number or none, got 'abc'"),
    ("scalecom:chunk=1.5", "takes a whole number or none, got '1.5'"),
    ("topk:density=x", "density takes a number, got 'x'"),
    ("lossless:shuffle=1", "shuffle takes true or false, got '1'"),
    ("dense:wire=3", "wire takes a word, got '3'"),
    ("dgc:warm_up=1", "cannot be typed here"),
    ("scalecom:chunk=0", "chunk must be from 1"),
])  # fmt: skip
def test_a_value_of_another_kind_is_one_clear_sentence(text, told):
    with pytest.raises(ValueError, match="chunk|density|shuffle|wire|warm_up") as raised:
        catalogue.get(text)
    assert told in str(raised.value)


def test_whole_numbers_are_numbers_and_none_is_none():
    assert catalogue.get("scalecom:chunk=none,beta=1") == ScaleCom(chunk=None, beta=1)
    assert catalogue.get("topk:density=1,error_feedback=false").error_feedback is False


@pytest.mark.parametrize("name", catalogue.names())
def test_every_setting_can_be_typed_as_its_default(name):
    made = catalogue.get(name)
    values = {key: value for key, value in vars(made).items() if not isinstance(value, tuple)}
    assert catalogue.get(f"{name}:" + ",".join(f"{key}={value}" for key, value in values.items())) == made


@pytest.mark.parametrize(("kind", "settings"), [
    (ScaleCom, {"chunk": "x"}), (ScaleCom, {"beta": None}), (AdaComp, {"bin": "50"}), (TopK, {"density": "1%"}),
    (PowerSGD, {"rank": [1]}), (QSGD, {"levels": True}),
])  # fmt: skip
def test_a_word_in_place_of_a_number_is_told_in_python_too(kind, settings):
    (name,) = settings
    with pytest.raises(ValueError, match=rf"^{name} of {kind.__name__} must be a number"):
        kind(**settings)
