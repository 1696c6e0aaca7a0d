# Thin aliases of `python3 start.py`, for those who like make.
.PHONY: lab test lint bench

lab:
	python3 start.py

test:
	python3 start.py test

lint: .venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: .venv
	.venv/bin/python -m benchmarks

.venv:
	python3 start.py test --version
