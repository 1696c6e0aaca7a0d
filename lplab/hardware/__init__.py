"""From bits to seconds, joules, kilograms and money: chips, workloads, networks and clusters as data, and arithmetic on them.

Needs numpy alone. Every number of a table carries its source and a grade; measured, modelled and published numbers are
told apart.
"""
