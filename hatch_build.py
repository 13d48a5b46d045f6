"""What a build adds to the metadata: the addresses of the repository, and a README whose links work on a package index.

The address is not written anywhere in the project. `DRAGOMAN_REPOSITORY` names it, or the variables of GitHub Actions
do. Without an address, a build has no project URLs, and the README is as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)\)")
_IMAGE_TAG = re.compile(r'(<img\b[^>]*?\bsrc=")(?![a-z]+:)([^"]+)"')


def find_repository(environment: dict[str, str]) -> str:
    """Return the web address of the repository; empty if it is unknown."""
    server, name = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    found = environment.get("DRAGOMAN_REPOSITORY") or (f"{server}/{name}" if server and name else "")
    return found.rstrip("/")


def project_urls(repository: str) -> dict[str, str]:
    """Return the rows of `project.urls`."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/policy",
    }


def absolute_links(readme: str, repository: str) -> str:
    """Return the README with links to files of the repository as full addresses."""

    def absolute(found: re.Match[str]) -> str:
        mark, text, path = found.groups()
        return f"{mark}{text}{repository}/{'raw' if mark else 'blob'}/main/{path})"

    readme = _LINK.sub(absolute, readme)
    return _IMAGE_TAG.sub(lambda found: f'{found[1]}{repository}/raw/main/{found[2]}"', readme)


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling calls it before it writes the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = find_repository(dict(os.environ))
        if repository:
            metadata["urls"] = project_urls(repository)
            readme = absolute_links(readme, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
