"""Elections of leaders."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.deps import Port, Writable
from api.errors import documented
from api.kafka.client import Kafka
from api.kafka.elections import PREFERRED, UNCLEAN, elect_leaders
from api.models.operations import ElectionBody, Outcomes
from api.routers.reassignments import outcomes_response

router = APIRouter(tags=["Elections"])


@router.post("/v1/elections", summary="Elect leaders", response_model=Outcomes, dependencies=[Writable],
             responses=documented(400, 403) | {207: {"model": Outcomes, "description": "Some were refused."}})  # fmt: skip
async def hold_elections(port: Port, body: ElectionBody) -> Response:
    """`preferred` gives leadership back to each partition's first replica. `unclean` lets a replica lead that is not in sync, where no other can: **records
    that it lacks are lost**."""
    named: dict[str, list[int]] | None = None
    if body.partitions is not None:
        named = {}
        for each in body.partitions:
            named.setdefault(each.topic, []).append(each.partition)
    kind = PREFERRED if body.type == "preferred" else UNCLEAN
    return outcomes_response(await elect_leaders(Kafka(port), kind, named))
