"""GetTelemetrySubscriptions and PushTelemetry (KIP-714). Apache Kafka has a receiver that reads each push as OTLP
(jepsen/java/client_metrics).

A client brings its own instance id, which follows from the case's name: so the subscription id, which is made from it,
is compared, too.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kraft.common.ids import METADATA_TOPIC_ID, uuid_to_text
from kraft.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from tests.unit.telemetry.pushes import gauge, part, point, push, total
from tests.vectors.case import Ask, Case, Step, case
from tests.vectors.cases.configs import CLIENT_METRICS, DELETE, SET, change

GET, PUSH = "GetTelemetrySubscriptions", "PushTelemetry"
NAME = "org.apache.kafka.producer.record.send.rate"
METRICS = push(gauge(NAME, point(2.5, {"topic": "t"})), total("org.apache.kafka.producer.record.send.total", point(3)))
BYTES_MAX = 1 << 20
"""The default of telemetry.max.bytes."""
DECOMPRESSED_BYTES_MAX = 4 << 20
AFTER_THE_INTERVAL_S = 0.25
SOFTWARE = {"client_software_name": "vectors", "client_software_version": "1"}


def own(name: str) -> bytes:
    """The instance id of a case."""
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()


def subscribe(name: str, match: str = "", **settings: str | None) -> Ask:
    """Set a subscription for the case's client alone, and wait until the broker knows it. None removes a setting."""
    wanted = {**settings, "match": ",".join(filter(None, (f"client_instance_id={uuid_to_text(own(name))}", match)))}
    operations = [
        (key.replace("_", "."), DELETE if value is None else SET, value) for key, value in sorted(wanted.items())
    ]
    asked = change(CLIENT_METRICS, f"telemetry-{name}", *operations)
    return Ask(asked.body, api="IncrementalAlterConfigs", version=1, hidden=True)


def ask(name: str, *, pause_s: float = 0.0, **more: Any) -> Ask:
    """The client asks for its subscription; later steps know the subscription id as `$subscription`."""
    body = {"client_instance_id": own(name)}
    return Ask(body, api=GET, version=0, save={"subscription": "subscription_id"}, pause_s=pause_s, **more)


def send(
    name: str, metrics: bytes = METRICS, codec: int = 0, *, pause_s: float = 0.0, on: str = "a", **fields: Any
) -> Ask:
    body = {
        "client_instance_id": own(name),
        "subscription_id": "$subscription",
        "compression_type": codec,
        "metrics": metrics,
        **fields,
    }
    return Ask(body, api=PUSH, version=0, pause_s=pause_s, on=on)


def asked(name: str, *steps: Step, match: str = "", **settings: str | None) -> Case:
    """The broker gets a subscription, and the client asks."""
    before = (subscribe(name, match, **settings), ask(name, pause_s=0.3))
    return case(f"telemetry-{name}", GET, *before, *steps, versions=(0, 0))


def pushed(name: str, *pushes: Ask) -> Case:
    """A client of a subscription to all metrics pushes; its interval is the default, of five minutes."""
    return case(f"telemetry-{name}", PUSH, ask(name), *pushes, versions=(0, 0))


def quick(name: str, *pushes: Ask) -> Case:
    """As before, with an interval of 100 ms."""
    before = (subscribe(name, metrics="*", interval_ms="100"), ask(name, pause_s=0.3))
    return case(f"telemetry-{name}", PUSH, *before, *pushes, versions=(0, 0))


def matched(name: str, match: str) -> Case:
    """A subscription whose pattern covers the client or does not. The client tells its software first."""
    told = Ask(SOFTWARE, api="ApiVersions", version=3, hidden=True)
    steps = (subscribe(name, match, metrics=NAME), told, ask(name, pause_s=0.3))
    return case(f"telemetry-{name}", GET, *steps, versions=(0, 0))


CODECS = {"none": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
ZERO, RESERVED = bytes(16), METADATA_TOPIC_ID
BROKERS_OWN = Ask(
    {"client_instance_id": ZERO},
    save={"instance": "client_instance_id", "subscription": "subscription_id"},
    mask=("subscription_id",),
)

CASES: tuple[Case, ...] = (
    case("telemetry-id-by-the-broker", GET, BROKERS_OWN),
    case(
        "telemetry-push-with-the-brokers-id",
        PUSH,
        Ask(BROKERS_OWN.body, api=GET, version=0, save=BROKERS_OWN.save, mask=BROKERS_OWN.mask),
        send("", client_instance_id="$instance"),
    ),
    case("telemetry-reserved-id", GET, Ask({"client_instance_id": RESERVED})),
    asked("all-metrics", metrics="*"),
    asked("one-prefix", metrics="org.apache.kafka.producer.", interval_ms="60000"),
    asked("prefix-and-all", metrics="org.apache.kafka.producer.,*"),
    asked("same-prefix-twice", metrics="a.b,a.b"),
    asked("no-metrics", interval_ms="1000"),
    asked("empty-metrics", metrics=""),
    asked("interval-longest", metrics="*", interval_ms="3600000"),
    asked("interval-shortest", metrics="*", interval_ms="100"),
    case("telemetry-no-subscription", GET, ask("no-subscription")),
    asked("asks-twice", ask("asks-twice"), metrics="*"),
    asked("asks-after-the-interval", ask("asks-after-the-interval", pause_s=0.3), metrics="*", interval_ms="100"),
    asked(
        "asks-after-a-change",
        subscribe("asks-after-a-change", metrics=NAME),
        ask("asks-after-a-change", pause_s=0.3),
        metrics="*",
    ),
    asked(
        "pushes-after-a-change",
        subscribe("pushes-after-a-change", metrics=NAME),
        send("pushes-after-a-change", pause_s=0.3),
        ask("pushes-after-a-change"),
        send("pushes-after-a-change"),
        metrics="*",
    ),
    asked(
        "asks-after-the-subscription-is-gone",
        subscribe("asks-after-the-subscription-is-gone", metrics=None, interval_ms=None),
        ask("asks-after-the-subscription-is-gone", pause_s=0.3),
        metrics="*",
        interval_ms="1000",
    ),
    asked("asks-after-a-push", send("asks-after-a-push"), ask("asks-after-a-push"), metrics="*"),
    matched("match-client-id", "client_id=vec.*"),
    matched("match-half-a-client-id", "client_id=vec"),
    matched("match-software", "client_software_name=vectors"),
    matched("match-version", "client_software_version=1"),
    matched("match-address", "client_source_address=127.0.0.1"),
    matched("match-port", "client_source_port=[0-9]+"),
    matched("match-other-address", "client_source_address=10.*"),
    matched("match-two-and-one-fails", "client_id=vectors,client_software_version=2"),
    asked("software-untold", match="client_software_name=unknown", metrics="*"),
    asked("version-untold", match="client_software_version=.*", metrics="*"),
    *(
        pushed(f"push-{name}", send(f"push-{name}", compress(codec, METRICS) if codec else METRICS, codec))
        for name, codec in CODECS.items()
    ),
    pushed("push-of-nothing", send("push-of-nothing", b"")),
    pushed("push-of-nothing-in-gzip", send("push-of-nothing-in-gzip", b"", GZIP)),
    *(
        pushed(f"garbage-in-{name}", send(f"garbage-in-{name}", b"\xff garbage", codec))
        for name, codec in CODECS.items()
    ),
    *(
        pushed(f"compressed-garbage-{name}", send(f"compressed-garbage-{name}", compress(codec, b"\xff"), codec))
        for name, codec in CODECS.items()
        if codec
    ),
    pushed("uncompressed-as-gzip", send("uncompressed-as-gzip", METRICS, GZIP)),
    pushed("gzip-as-uncompressed", send("gzip-as-uncompressed", compress(GZIP, METRICS))),
    pushed("unknown-fields", send("unknown-fields", METRICS + part(15, b"more"))),
    *(
        pushed(f"codec-{codec}", send(f"codec-{codec}", METRICS, codec), ask(f"codec-{codec}"))
        for codec in (5, 127, -1)
    ),
    pushed("largest", send("largest", part(15, bytes(BYTES_MAX - 4)))),
    pushed("too-large", send("too-large", bytes(BYTES_MAX + 1)), ask("too-large")),
    *(
        pushed(f"{name}-decompressed", send(f"{name}-decompressed", compress(GZIP, part(15, bytes(size))), GZIP))
        for name, size in (
            ("as-large-as-a-push", BYTES_MAX - 4),
            ("larger-than-a-push", BYTES_MAX + 1),
            ("too-large", DECOMPRESSED_BYTES_MAX + 1),
        )
    ),
    pushed("zero-id", send("zero-id", client_instance_id=ZERO)),
    pushed("metadata-topics-id", send("metadata-topics-id", client_instance_id=RESERVED)),
    pushed("unknown-subscription", send("unknown-subscription", subscription_id=1), ask("unknown-subscription")),
    pushed("subscription-0", send("subscription-0", subscription_id=0), send("subscription-0")),
    case("telemetry-push-of-an-unknown-instance", PUSH, send("push-of-an-unknown-instance", subscription_id=5)),
    case(
        "telemetry-terminating-push-of-an-unknown-instance",
        PUSH,
        send("terminating-push-of-an-unknown-instance", subscription_id=5, terminating=True),
    ),
    pushed("too-early", send("too-early"), send("too-early"), ask("too-early")),
    pushed("early-and-terminating", send("early-and-terminating"), send("early-and-terminating", terminating=True)),
    pushed(
        "early-with-a-wrong-subscription",
        send("early-with-a-wrong-subscription"),
        send("early-with-a-wrong-subscription", subscription_id=1),
    ),
    pushed(
        "terminating-twice",
        send("terminating-twice", terminating=True),
        send("terminating-twice", terminating=True),
        send("terminating-twice"),
        send("terminating-twice"),
        ask("terminating-twice"),
    ),
    pushed(
        "terminating-with-a-wrong-subscription",
        send("terminating-with-a-wrong-subscription", subscription_id=1, terminating=True),
        send("terminating-with-a-wrong-subscription"),
    ),
    quick(
        "in-time",
        send("in-time"),
        send("in-time", pause_s=AFTER_THE_INTERVAL_S),
        send("in-time", b"\xff", pause_s=AFTER_THE_INTERVAL_S),
        send("in-time", pause_s=AFTER_THE_INTERVAL_S),
    ),
    quick(
        "terminating-after-the-interval",
        send("terminating-after-the-interval", terminating=True),
        send("terminating-after-the-interval", pause_s=AFTER_THE_INTERVAL_S),
        ask("terminating-after-the-interval", pause_s=AFTER_THE_INTERVAL_S),
        send("terminating-after-the-interval"),
    ),
    pushed("over-another-connection", send("over-another-connection", on="b"), ask("over-another-connection")),
)
