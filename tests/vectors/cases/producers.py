"""InitProducerId and DescribeProducers."""

from typing import Any

from tests.vectors.case import Ask, case, create, produced
from tests.vectors.plain import Batch


def init(**more: Any) -> Ask:
    return Ask({"transactional_id": None, "transaction_timeout_ms": 60000, **more})


def producers(*indexes: int) -> Ask:
    return Ask({"topics": [{"name": "$topic", "partition_indexes": list(indexes)}]})


SEQUENCED = produced(Batch(b"a", b"b", producer_id=4_100_001, producer_epoch=2, base_sequence=0))

CASES = (
    case("init", "InitProducerId", init()),
    case("init-zero-timeout", "InitProducerId", init(transaction_timeout_ms=0)),
    case("init-negative-timeout", "InitProducerId", init(transaction_timeout_ms=-1)),
    case("init-bump", "InitProducerId", init(producer_id=77, producer_epoch=1), versions=(3, 6)),
    case("init-id-without-epoch", "InitProducerId", init(producer_id=77, producer_epoch=-1), versions=(3, 6)),
    case("init-epoch-without-id", "InitProducerId", init(producer_id=-1, producer_epoch=4), versions=(3, 6)),
    case("init-empty-transactional-id", "InitProducerId", init(transactional_id="")),
    case("describe", "DescribeProducers", create(), SEQUENCED, producers(0)),
    case("describe-none", "DescribeProducers", create(), producers(0)),
    case("describe-unknown-topic", "DescribeProducers", producers(0)),
    case("describe-unknown-partition", "DescribeProducers", create(), producers(0, 6)),
    case("describe-bad-topic", "DescribeProducers", Ask({"topics": [{"name": "a/b", "partition_indexes": [0]}]})),
)
