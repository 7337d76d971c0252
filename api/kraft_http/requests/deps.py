"""The dependencies of routes: the cluster of the request, a Kafka client, links, and pages of lists."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator
from starlette.datastructures import URL

from kraft_http.models.common import INT32_MAX, CollectionMetadata, UnansweredBroker
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import AdminPort
from kraft_http.requests.errors import ApiProblem, not_found
from kraft_http.requests.links import Links, restore_slashes
from kraft_http.requests.response_cache import ResponseCache
from kraft_http.requests.scopes import PORT

T = TypeVar("T")


async def admin_port(request: Request) -> AdminPort:
    port: AdminPort = request.scope[PORT]
    return port


async def recent_answers(request: Request) -> ResponseCache:
    recent: ResponseCache = request.app.state.recent
    return recent


Port = Annotated[AdminPort, Depends(admin_port)]
Recent = Annotated[ResponseCache, Depends(recent_answers)]


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """The context of one request about one cluster."""

    cluster_id: str
    kafka: NodeTransport
    links: Links
    url: URL


ClusterIdPath = Annotated[str, Path(description="Id of the cluster, from /v3/clusters.")]


async def cluster_context(request: Request, port: Port, cluster_id: ClusterIdPath) -> ClusterContext:
    if cluster_id != port.identity.cluster_id:
        raise not_found(f"Cluster {cluster_id}")
    return ClusterContext(cluster_id, NodeTransport(port), Links(str(request.base_url), cluster_id), _url(request))


def _url(request: Request) -> URL:
    """The request's URL, quoted as the client sent it. `request.url` cannot be used: it is made from the decoded
    path."""
    raw_path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query: bytes = request.scope["query_string"]
    return URL(
        f"{str(request.base_url).rstrip('/')}{raw_path.decode('latin-1')}"
        f"{'?' if query else ''}{query.decode('latin-1')}"
    )


async def writable(port: Port) -> None:
    """Reject a change if the admin is read-only."""
    if port.identity.read_only:
        raise ApiProblem(403, "This HTTP admin is read-only (kraft.admin.read.only).", error_code=40301)


Cluster = Annotated[ClusterContext, Depends(cluster_context)]
Writable = Depends(writable)

BrokerIdPath = Annotated[int, Path(ge=0, le=INT32_MAX, description="Id of the broker.")]
PartitionIdPath = Annotated[int, Path(ge=0, le=INT32_MAX, description="Number of the partition.")]
TopicNamePath = Annotated[str, Path(description="Name of the topic.")]
ConfigNamePath = Annotated[str, Path(description="Name of the configuration key.")]


GroupIdPath = Annotated[
    str,
    Path(alias="consumer_group_id", description="Id of the group. Encode slashes as %2F."),
    AfterValidator(restore_slashes),
]


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a list."""

    size: int | None
    """None: no limit."""
    after: str | None
    """Key of the last element of the previous page."""

    def or_of(self, size: int) -> Page:
        """The page with `size` as the default number of elements."""
        return Page(self.size or size, self.after)

    def cut(
        self, items: Sequence[T], key: Callable[[T], str], url: URL, *, descending: bool = False
    ) -> tuple[list[T], CollectionMetadata]:
        """The page of `items`, which are sorted by `key`, and the collection's metadata. Elements that are added or
        removed between two requests do not shift the pages."""
        after = self.after
        rest = [item for item in items if after is None or (key(item) < after if descending else key(item) > after)]
        page = rest if self.size is None else rest[: self.size]
        following = None
        if len(page) < len(rest):
            following = str(url.include_query_params(page_size=self.size, page_token=_encode_token(key(page[-1]))))
        return list(page), CollectionMetadata(self=str(url), next=following)


def _encode_token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_token(token: str) -> str:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as problem:
        raise ApiProblem(400, "page_token is not valid: take it from the `next` link of the page before.") from problem


async def page(
    page_size: Annotated[
        int | None, Query(ge=1, le=1000, description="Largest number of elements in the response. Default: all.")
    ] = None,
    page_token: Annotated[str | None, Query(description="Token from `next` of the previous page.")] = None,
) -> Page:
    """The page that the parameters request. Without parameters it is the whole list, as in REST v3."""
    return Page(page_size, None if page_token is None else _decode_token(page_token))


PageQuery = Annotated[Page, Depends(page)]


IncludeOperations = Annotated[
    bool,
    Query(
        alias="include_authorized_operations",
        description="Whether authorized_operations lists the operations that the caller may perform (KIP-430).",
    ),
]


def unanswered(kafka: NodeTransport) -> list[UnansweredBroker]:
    """The brokers that did not answer, and are missing in the response."""
    return [UnansweredBroker(broker_id=broker_id, detail=detail) for broker_id, detail in sorted(kafka.silent.items())]


def whole(url: URL) -> CollectionMetadata:
    """The metadata of a collection that is never paged."""
    return CollectionMetadata(self=str(url), next=None)
