"""Envelope: what a broker hands on for a client, whole requests within a request."""

from typing import Any

from kraft.protocol.messages.default_principal_data import DefaultPrincipalData
from kraft.protocol.messages.request_header import RequestHeader
from kraft.protocol.schema import flexible_in
from tests.vectors.case import CONTROLLER, Ask, case, create
from tests.vectors.plain import message_class, to_message

PRINCIPAL = b"\0\0" + DefaultPrincipalData(type="User", name="vectors", token_authenticated=False).encode(0)
LOOPBACK = b"\x7f\0\0\1"


def request(api: str, version: int, body: dict[str, Any]) -> bytes:
    """Header and body, as they came to the broker."""
    cls = message_class(f"{api}Request")
    header = RequestHeader(
        request_api_key=cls.API_KEY, request_api_version=version, correlation_id=77, client_id="client"
    )
    return bytes(header.encode(2 if flexible_in(cls, version) else 1)) + bytes(
        to_message(cls, body, version).encode(version)
    )


def envelope(data: bytes, principal: bytes | None = PRINCIPAL, address: bytes = LOOPBACK) -> Ask:
    return Ask(
        {"request_data": data, "request_principal": principal, "client_host_address": address},
        api="Envelope",
        version=0,
        listener=CONTROLLER,
    )


TRIAL = {
    "topics": [{"name": "envelope-trial", "num_partitions": 1, "replication_factor": 1}],
    "timeout_ms": 10000,
    "validate_only": True,
}
CREATED = request("CreateTopics", 6, TRIAL)  # The latest whose answer has no id in it.

CASES = (
    case("create-topics", "Envelope", envelope(CREATED)),
    case("create-topics-older", "Envelope", envelope(request("CreateTopics", 2, TRIAL))),
    case("nothing-to-alter", "Envelope", envelope(request("AlterConfigs", 2, {"resources": []}))),
    case(
        "delete-unknown-topic",
        "Envelope",
        envelope(request("DeleteTopics", 4, {"topic_names": ["envelope-unknown"], "timeout_ms": 1000})),
    ),
    case("grow-nothing", "Envelope", envelope(request("CreatePartitions", 3, {"topics": [], "timeout_ms": 1000}))),
    case(
        "envelope-elect",
        "Envelope",
        create("envelope-elected"),
        envelope(request("ElectLeaders", 0, {"topic_partitions": []})),
    ),
    case("address-of-six", "Envelope", envelope(CREATED, address=bytes(15) + b"\1")),
    case("address-of-three", "Envelope", envelope(CREATED, address=b"\1\2\3")),
    case("no-principal", "Envelope", envelope(CREATED, principal=None)),
    case("empty-principal", "Envelope", envelope(CREATED, principal=b"")),
    case("principal-of-the-future", "Envelope", envelope(CREATED, principal=b"\0\x09" + PRINCIPAL[2:])),
    case(
        "not-to-be-forwarded",
        "Envelope",
        envelope(request("ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"})),
    ),
    case(
        "envelope-in-envelope",
        "Envelope",
        envelope(request("Envelope", 0, {"request_data": b"", "request_principal": b"", "client_host_address": b""})),
    ),
    case("envelope-cut-short", "Envelope", envelope(CREATED[:-4])),
    case("header-only", "Envelope", envelope(CREATED[:10])),
    case("envelope-nothing", "Envelope", envelope(b"")),
)
