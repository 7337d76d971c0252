"""The response to one Fetch. In an incremental session it has only the partitions that changed since the previous
response (KIP-227)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.fetch.encoder import FetchedPartition, encode_fetch_reply, encode_fetch_reply_steps
from kraft.handlers.registry import RequestContext
from kraft.network.reply import Reply
from kraft.protocol.messages.fetch_response import NodeEndpoint
from kraft.replication.sessions.fetch_session import INVALID_SESSION_ID, FetchSession
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.metadata.metadata_cache import MetadataCache

LEADER_HINT_VERSION = 16


def is_enough(results: list[FetchedPartition], bytes_min: int) -> bool:
    """Whether to answer now: the results have `bytes_min` bytes, or one of them is urgent."""
    size = 0
    for result in results:
        if result.is_urgent:
            return True
        size += result.size
    return size >= bytes_min


class FetchAnswer:
    """The response to one Fetch. `session` is None for a sessionless request."""

    __slots__ = ("_context", "_is_incremental", "_metadata", "_session")

    def __init__(
        self, context: RequestContext, metadata: MetadataCache, session: FetchSession | None, *, is_incremental: bool
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._session = session
        self._is_incremental = is_incremental

    def encode(self, results: list[FetchedPartition], throttle_ms: int = 0) -> Reply:
        """Encode the response and update the session. `throttle_ms` is the client's throttle time."""
        context, session = self._context, self._session
        if session is not None:
            results = [result for result in results if self._is_news(session, result)]
        session_id = session.id if session is not None else INVALID_SESSION_ID
        return encode_fetch_reply(
            context.correlation_id, context.api_version, 0, session_id, results, self._endpoints(results), throttle_ms
        )

    def encode_wait(self, throttle_ms: int) -> Reply:
        """Encode an empty response for a client that must wait before it gets records. Its session is not changed."""
        context, session = self._context, self._session
        session_id = session.id if session is not None else INVALID_SESSION_ID
        return encode_fetch_reply(context.correlation_id, context.api_version, 0, session_id, (), (), throttle_ms)

    def encode_steps(self, results: list[FetchedPartition], throttle_ms: int = 0) -> Steps[Reply]:
        """Encode as `encode` does, but yield after each partition."""
        context, session = self._context, self._session
        if session is not None:
            news = []
            for result in results:
                if self._is_news(session, result):
                    news.append(result)
                yield None
            results = news
        session_id = session.id if session is not None else INVALID_SESSION_ID
        return (
            yield from encode_fetch_reply_steps(
                context.correlation_id,
                context.api_version,
                0,
                session_id,
                results,
                self._endpoints(results),
                throttle_ms,
            )
        )

    def _is_news(self, session: FetchSession, result: FetchedPartition) -> bool:
        """Whether the response includes the partition. Updates the offsets that the session has sent."""
        cached = session.partitions.get(result.key)
        has_news = bool(result.size) or result.is_urgent
        changed = cached is not None and cached.differs(result.high_watermark, result.log_start_offset, has_news)
        if cached is not None and result.diverging is not None:
            cached.send_again()
        if result.size:
            session.moved_to_end(result.key)
        return changed or not self._is_incremental

    def _endpoints(self, results: list[FetchedPartition]) -> list[NodeEndpoint]:
        """The endpoints of the leaders that the results name (KIP-951)."""
        if self._context.api_version < LEADER_HINT_VERSION:
            return []
        leaders = {result.leader[0] for result in results if result.leader is not None}
        if not leaders:
            return []
        brokers = self._metadata.live_brokers(self._context.peer.listener)
        return [
            NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in brokers
            if node.id in leaders
        ]
