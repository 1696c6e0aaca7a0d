"""What a lab shows beside its explorers: one module for each lab, with its tables and its guided questions.

Notebooks stay thin: a table, or an explorer with questions, is one call. What guided questions have in common is in
``guided``.

>>> from lplab.labs.guided import GuidedQuestion
"""
