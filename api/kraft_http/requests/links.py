"""URLs and resource names in responses."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

PREFIX: Final = "/kafka"
"""The path prefix of Confluent Server. Clients generated from its OpenAPI document use it."""
SLASH_STAND_IN = "\ue02f"
"""Stands for an encoded slash inside one path segment (see `middleware`): group ids may contain slashes, and a router
would split them there."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*", re.ASCII)
"""Characters that are never quoted. Nearly every segment has only these, and this check is much faster than quoting."""


def segment(text: object) -> str:
    """One path segment, quoted."""
    plain = str(text)
    return plain if _PLAIN.fullmatch(plain) else quote(plain, safe="")


def restore_slashes(text: str) -> str:
    return text.replace(SLASH_STAND_IN, "/")


class Links:
    """Absolute URLs of resources of one cluster, with the base URL that the client used."""

    def __init__(self, base_url: str, cluster_id: str) -> None:
        """`base_url` ends with PREFIX if the client's URL had it."""
        prefixed = base_url.rstrip("/")
        self.base_url = prefixed.removesuffix(PREFIX)
        self.cluster_id = cluster_id
        self.clusters = f"{prefixed}/v3/clusters"
        self._own = f"{self.clusters}/{segment(cluster_id)}"

    def to(self, *segments: object) -> str:
        """The URL `.../v3/clusters/<id>/<segments>`."""
        return "/".join([self._own, *map(segment, segments)])

    def name(self, *parts: str) -> str:
        """The resource name `crn:///kafka=<cluster>/topic=t/partition=0`; parts are `kind=value` or single words."""
        return "/".join([f"crn:///kafka={self.cluster_id}", *parts])
