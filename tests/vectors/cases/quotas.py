"""DescribeClientQuotas, AlterClientQuotas, and what a quota of mutations refuses. DescribeUserScramCredentials, which
Kafka's tool asks beside the quotas of users."""

from typing import Any

from tests.vectors.case import Ask, case

DESCRIBE, ALTER = "DescribeClientQuotas", "AlterClientQuotas"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
WAIT = ("throttle_time_ms",)


def entity(**parts: str | None) -> list[dict[str, Any]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in parts.items()]


def op(key: str, value: float | None) -> dict[str, Any]:
    return {"key": key, "value": value or 0.0, "remove": value is None}


def alter(who: list[dict[str, Any]], *ops: dict[str, Any], **more: Any) -> Ask:
    return Ask({"entries": [{"entity": who, "ops": list(ops)}], **more})


def also(who: list[dict[str, Any]], *ops: dict[str, Any]) -> Ask:
    """The same as setup."""
    return Ask({"entries": [{"entity": who, "ops": list(ops)}]}, api=ALTER, version=1, hidden=True)


def component(kind: str, match: int, name: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match, "match": name}


def describe(*components: dict[str, Any], strict: bool = False, **more: Any) -> Ask:
    return Ask({"components": list(components), "strict": strict}, **more)


def see(*components: dict[str, Any]) -> Ask:
    return describe(*components, strict=True, api=DESCRIBE, version=1, pause_s=0.2)


def named(kind: str, name: str) -> dict[str, Any]:
    return component(kind, EXACT, name)


PRODUCER, CONSUMER, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
CLIENT = named("client-id", "$group")

CASES = (
    case(
        "client",
        ALTER,
        alter(entity(client_id="$group"), op(PRODUCER, 1000.0)),
        see(CLIENT),
        alter(entity(client_id="$group"), op(PRODUCER, 2000.0)),
        alter(entity(client_id="$group"), op(TIME, 12.5)),
        alter(entity(client_id="$group"), op(PRODUCER, None)),
        see(CLIENT),
        alter(entity(client_id="$group"), op(TIME, None), op(CONSUMER, None)),
        see(CLIENT),
    ),
    case(
        "user-and-client",
        ALTER,
        alter(entity(user="$group", client_id="$group2"), op(MUTATION, 0.5)),
        see(named("user", "$group"), named("client-id", "$group2")),
        alter(entity(user="$group", client_id=None), op(MUTATION, 2.0)),
        see(named("user", "$group"), component("client-id", DEFAULT)),
        alter(entity(user="$group", client_id="$group2"), op(MUTATION, None)),
        alter(entity(user="$group", client_id=None), op(MUTATION, None)),
    ),
    case(
        "address",
        ALTER,
        alter(entity(ip="10.9.8.7"), op(CONNECTION, 20.0)),
        see(named("ip", "10.9.8.7")),
        alter(entity(ip="10.9.8.7"), op(CONNECTION, None)),
        alter(entity(ip="1.2.3.4.5"), op(CONNECTION, 20.0)),
        alter(entity(ip="10.9.8.7"), op(PRODUCER, 20.0)),
        alter(entity(ip="10.9.8.7", user="u"), op(CONNECTION, 20.0)),
        alter(entity(client_id="$group"), op(CONNECTION, 20.0)),
    ),
    case(
        "validate-only",
        ALTER,
        alter(entity(client_id="$group"), op(PRODUCER, 1000.0), validate_only=True),
        alter(entity(client_id="$group"), op("no_such_key", 1000.0), validate_only=True),
        see(CLIENT),
    ),
    case(
        "refused",
        ALTER,
        alter([], op(PRODUCER, 1000.0)),
        alter(entity(planet="mars"), op(PRODUCER, 1000.0)),
        alter(entity(user=""), op(PRODUCER, 1000.0)),
        alter(entity(client_id=""), op(PRODUCER, 1000.0)),
        alter(entity(client_id="$group"), op("no_such_key", 1000.0)),
        alter(entity(client_id="$group"), op(PRODUCER, 1000.5)),
        alter(entity(client_id="$group"), op("no_such_key", None)),
        alter(entity(client_id="$group")),
        see(CLIENT),
    ),
    case(
        "value-at-the-edge",
        ALTER,
        alter(entity(client_id="$group"), op(PRODUCER, -1.0)),
        see(CLIENT),
        alter(entity(client_id="$group"), op(PRODUCER, 0.0)),
        see(CLIENT),
        alter(entity(client_id="$group"), op(TIME, -3.0)),
        see(CLIENT),
        alter(entity(client_id="$group"), op(PRODUCER, None), op(TIME, None)),
    ),
    case(
        "same-key-twice",
        ALTER,
        alter(entity(client_id="$group"), op(PRODUCER, 1000.0), op(PRODUCER, 2000.0)),
        see(CLIENT),
    ),
    case(
        "same-entity-twice",
        ALTER,
        Ask(
            {
                "entries": [
                    {"entity": entity(client_id="$group"), "ops": [op(PRODUCER, 1000.0)]},
                    {"entity": entity(client_id="$group"), "ops": [op(PRODUCER, 2000.0)]},
                ]
            }
        ),
        see(CLIENT),
        also(entity(client_id="$group"), op(PRODUCER, None)),
    ),
    case(
        "same-part-twice",
        ALTER,
        alter([*entity(user="a"), *entity(user="b")], op(PRODUCER, 1000.0)),
    ),
    case(
        "filters",
        DESCRIBE,
        also(entity(user="$group"), op(PRODUCER, 1.0)),
        also(entity(user="$group", client_id="$group2"), op(PRODUCER, 2.0)),
        also(entity(client_id="$group2"), op(PRODUCER, 3.0)),
        describe(named("user", "$group"), pause_s=0.2),
        describe(named("user", "$group"), strict=True),
        describe(named("client-id", "$group2")),
        describe(named("client-id", "$group2"), strict=True),
        describe(named("user", "$group"), named("client-id", "$group2"), strict=True),
        describe(named("user", "$group"), component("client-id", SPECIFIED)),
        describe(named("user", "$group"), component("client-id", DEFAULT)),
        describe(strict=True),
        also(entity(user="$group"), op(PRODUCER, None)),
        also(entity(user="$group", client_id="$group2"), op(PRODUCER, None)),
        also(entity(client_id="$group2"), op(PRODUCER, None)),
    ),
    case(
        "filters-refused",
        DESCRIBE,
        describe(component("", EXACT, "x")),
        describe(named("user", "x"), named("user", "y")),
        describe(named("planet", "x")),
        describe(component("user", EXACT)),
        describe(component("user", DEFAULT, "x")),
        describe(component("user", SPECIFIED, "x")),
        describe(component("user", 9)),
        describe(named("ip", "10.0.0.1"), named("user", "x")),
    ),
    case(
        "users",
        "DescribeUserScramCredentials",
        Ask({"users": None}),
        Ask({"users": []}),
        Ask({"users": [{"name": "nobody"}]}),
        Ask({"users": [{"name": "nobody"}, {"name": "nobody"}]}),
        Ask({"users": [{"name": ""}]}),
    ),
)
