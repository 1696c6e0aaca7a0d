"""Addresses of the project in the package's metadata: those of the repository on GitHub that LPLAB_REPOSITORY names.

    LPLAB_REPOSITORY=owner/name python -m build

A checkout doesn't know where it is published. The workflows set the variable; without it the package has no addresses.
"""

import os
import re

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Fills ``[project.urls]``."""

    def update(self, metadata: dict) -> None:
        """Add the addresses to the metadata, if the repository is known."""
        repository = os.environ.get("LPLAB_REPOSITORY", "")
        if not repository:
            return
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise ValueError(f'LPLAB_REPOSITORY must be "owner/name", a repository on GitHub, got {repository!r}')
        owner, name = repository.split("/")
        source = f"https://github.com/{repository}"
        metadata["urls"] = {
            "Homepage": f"https://{owner.lower()}.github.io/{name}/",
            "Documentation": f"https://{owner.lower()}.github.io/{name}/",
            "Source": source,
            "Issues": f"{source}/issues",
            "Changelog": f"{source}/blob/main/CHANGELOG.md",
        }
