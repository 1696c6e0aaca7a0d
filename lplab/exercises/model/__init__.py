"""Exercises and questions as data: texts, solution, form of a result, known mistakes; and the catalogue of all."""
