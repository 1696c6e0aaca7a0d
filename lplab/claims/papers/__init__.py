"""One module for each claim, and the models of one paper beside it."""
