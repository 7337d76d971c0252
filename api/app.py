"""The HTTP admin: `create_app` puts the routers together around one node."""

from __future__ import annotations

from fastapi import FastAPI

from api import errors, openapi
from api.failures import Failures
from api.middleware import BoundedBodies, EncodedSlashes
from api.ports import AdminPort
from api.routers import (
    broker_states,
    clusters,
    elections,
    events,
    groups,
    lags,
    operations,
    partitions,
    quorum,
    reassignments,
    records,
    replicas,
    topics,
)
from api.routers.configs import brokers as broker_configs
from api.routers.configs import clusters as cluster_configs
from api.routers.configs import groups as group_configs
from api.routers.configs import topics as topic_configs
from api.ui import pages
from kraft.common.logging import Sink

ROUTERS = (
    operations.router,
    topic_configs.router,
    broker_configs.router,
    cluster_configs.router,
    group_configs.router,
    clusters.router,
    broker_states.router,
    quorum.router,
    reassignments.router,
    replicas.router,
    elections.router,
    events.router,
    partitions.router,
    records.router,
    topics.router,
    lags.router,
    groups.router,
    pages.router,
)
"""In order: routes with a `-` segment or more segments come before those with a name in that place."""


def create_app(port: AdminPort, log_sink: Sink) -> FastAPI:
    """An ASGI application that speaks for the node behind `port`, and writes to its log what nobody expected."""
    app = FastAPI(
        title=openapi.TITLE, docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False
    )
    app.state.port = port
    app.state.event_streams = []
    app.add_middleware(EncodedSlashes)
    app.add_middleware(BoundedBodies)
    app.add_middleware(Failures, identity=port.identity, log_sink=log_sink)
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    openapi.install(app, port.identity.version)
    return app
