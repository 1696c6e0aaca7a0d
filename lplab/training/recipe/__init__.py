"""Recipes as data: the format of each tensor role, the layers that are exceptions, the update of weights."""
