"""From a folder of notebooks and reports to marks; a student's own report."""
