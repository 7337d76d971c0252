"""The HTTP admin: `create_app` assembles the routers for one node."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from kraft.admin.copying import CopyRate
from kraft.common.logging import Sink
from kraft_http import openapi
from kraft_http.ports import AdminPort
from kraft_http.records.searching import Searches
from kraft_http.requests import errors
from kraft_http.requests.idempotency import IdempotencyKeys
from kraft_http.requests.int64 import int64_form
from kraft_http.requests.logins import AuthMiddleware
from kraft_http.requests.middleware import BoundedBodies, EncodedSlashes, KafkaPrefix, OriginMiddleware
from kraft_http.requests.parameters import known_parameters
from kraft_http.requests.preconditions import Preconditions
from kraft_http.requests.reported_error import Failures
from kraft_http.requests.response_cache import ResponseCache, loop_seconds
from kraft_http.routers import (
    acls,
    broker_states,
    clients,
    clusters,
    decommissions,
    elections,
    events,
    features,
    group_lags,
    groups,
    history,
    lags,
    operations,
    partitions,
    quorum,
    quotas,
    reassignments,
    records,
    replicas,
    searches,
    share_groups,
    streams_groups,
    tokens,
    topics,
    transactions,
    users,
)
from kraft_http.routers.configs import brokers as broker_configs
from kraft_http.routers.configs import clusters as cluster_configs
from kraft_http.routers.configs import groups as group_configs
from kraft_http.routers.configs import topics as topic_configs
from kraft_http.ui import pages

ROUTERS = (
    operations.router,
    topic_configs.router,
    broker_configs.router,
    cluster_configs.router,
    group_configs.router,
    clusters.router,
    broker_states.router,
    decommissions.router,
    clients.router,
    quorum.router,
    reassignments.router,
    replicas.router,
    elections.router,
    quotas.router,
    transactions.router,
    users.router,
    acls.router,
    tokens.router,
    features.router,
    events.router,
    history.router,
    partitions.router,
    records.router,
    searches.router,
    topics.router,
    group_lags.router,
    group_lags.topic_router,
    lags.router,
    lags.progress_router,
    groups.router,
    share_groups.router,
    streams_groups.router,
    pages.router,
)
"""Ordered: routes with a `-` segment or more segments precede routes with a parameter in that place."""


def create_app(port: AdminPort, log_sink: Sink) -> FastAPI:
    """Create the ASGI application for the node behind `port`. Unexpected errors are written to `log_sink`."""
    app = FastAPI(
        title=openapi.TITLE,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        dependencies=[Depends(known_parameters), Depends(int64_form)],
    )
    app.state.event_streams = []
    app.state.searches = Searches()
    app.state.idempotency_keys = IdempotencyKeys(loop_seconds)
    app.state.recent = ResponseCache(loop_seconds)
    app.state.copy_rate = CopyRate()
    app.add_middleware(Preconditions)
    app.add_middleware(EncodedSlashes)
    app.add_middleware(BoundedBodies)
    app.add_middleware(AuthMiddleware, port=port)
    app.add_middleware(OriginMiddleware, identity=port.identity)
    app.add_middleware(Failures, identity=port.identity, log_sink=log_sink)
    app.add_middleware(KafkaPrefix)
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    openapi.install(app, port.identity)
    return app
