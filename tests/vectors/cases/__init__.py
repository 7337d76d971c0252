"""What is asked, by subject. The order matters for the first module only: it looks at a cluster that has no topics
yet."""

from tests.vectors.case import Case
from tests.vectors.cases import (
    acls,
    at_controller,
    cluster,
    configs,
    controller,
    directories,
    envelopes,
    fetch,
    group_offsets,
    groups,
    offsets,
    placement,
    produce,
    producers,
    quorum,
    quotas,
    registration,
    sasl,
    topics,
    transactions,
)

MODULES: dict[str, tuple[Case, ...]] = {
    "cluster": cluster.CASES,
    "topics": topics.CASES,
    "produce": produce.CASES,
    "fetch": fetch.CASES,
    "offsets": offsets.CASES,
    "configs": configs.CASES,
    "producers": producers.CASES,
    "groups": groups.CASES,
    "group_offsets": group_offsets.CASES,
    "controller": controller.CASES,
    "placement": placement.CASES,
    "directories": directories.CASES,
    "quorum": quorum.CASES,
    "quotas": quotas.CASES,
    "sasl": sasl.CASES,
    "acls": acls.CASES,
    "envelopes": envelopes.CASES,
    "registration": registration.CASES,
    "at_controller": at_controller.CASES,
    "transactions": transactions.CASES,
}
