"""A small notebook that keeps every rule, to be broken by tests."""

from tests.labs import notebooks

IMPORTS = "from lplab import formats\nfrom lplab.exercises import check"


def code(text: str, output: str = "") -> dict:
    """A code cell; with an output it has been run."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": output + "\n"}] if output else []
    count = 1 if output else None
    return {"cell_type": "code", "source": text, "outputs": outputs, "execution_count": count, "metadata": {}}


def prose(text: str) -> dict:
    """A cell of text."""
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def small_notebook() -> dict:
    """A small notebook that keeps every rule and states three facts of a number format."""
    facts = {"print(f.max)": "448.0", "print(f.smallest_normal)": "0.015625", "print(f.quantize(0.3))": "0.3125"}
    book = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [
            prose("# Few bits (2022)\nEight bits are enough. 20 min"),
            code(f"{IMPORTS}\n\nf = formats.get('e4m3fn')\nassert f.bits == 8"),
            *[{**code(text, output), "metadata": {"tags": [notebooks.TAG]}} for text, output in facts.items()],
            *[prose(f"## {heading}") for heading in notebooks.HEADINGS],
            *[
                {**make(""), "id": f"{part}-01-{number}"}
                for number in range(1, 5)
                for part, make in (("statement", prose), ("exercise", code))
            ],
        ],
    }
    notebooks.number_cells(book)
    notebooks.write_exercises(book)
    return book
