"""Metadata of the published package that depend on the repository's address: its URLs, and README with absolute links.

A package index shows README without the tree around it, so a relative link leads nowhere there. The address stands in
pyproject.toml, in the table of Hatch's metadata hook.
"""

from __future__ import annotations

import re
from typing import Final

FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
SOURCE: Final = re.compile(r'(?P<name>src|srcset)="(?P<target>[^"]+)"')
PLACEHOLDER_HOST: Final = "example.org"
"""The host of the repository's address until the owner sets it (RFC 2606)."""


def project_urls(repository: str, version: str) -> dict[str, str]:
    """The URLs that a package index shows beside the package."""
    tag = f"v{version}"
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/README.md",
        "Changelog": f"{repository}/blob/{tag}/docs/changes.md",
        "Source": f"{repository}/tree/{tag}",
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/policy",
    }


def with_absolute_links(readme: str, repository: str, version: str) -> str:
    """README in which relative links and images lead to the release's tag in the repository.

    Code blocks, absolute links and links to a heading of README itself stay as they are.
    """

    def absolute(target: str, kind: str) -> str:
        if "://" in target or target.startswith(("#", "mailto:")):
            return target
        return f"{repository}/{kind}/v{version}/{target}"

    def link(found: re.Match[str]) -> str:
        text = LINK.sub(link, found["text"])  # An image may be the text of a link.
        return f"{found['image']}[{text}]({absolute(found['target'], 'raw' if found['image'] else 'blob')})"

    def source(found: re.Match[str]) -> str:
        return f'{found["name"]}="{absolute(found["target"], "raw")}"'

    parts = FENCE.split(readme)
    return "".join(part if FENCE.fullmatch(part) else SOURCE.sub(source, LINK.sub(link, part)) for part in parts)
