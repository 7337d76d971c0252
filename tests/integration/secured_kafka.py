"""A secured cluster whose nodes change between Apache Kafka and ours: its keys and logins, and what each user may do
there, asked of every node."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kraft.cli.admin.app import main
from kraft.testing.certificates import authority
from kraft.testing.ports import HOST, free_ports
from tests.integration.rolling_kafka import RollingCluster, until

SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD: Final = "a-password"
STORE_PASSWORD: Final = "store-password"
BROKER: Final = "broker"
"""The user that brokers log in as. Its SCRAM credential is in the log of the quorum from the start."""
ADMIN: Final = "admin"
READER: Final = "reader"
"""The name in a client's certificate."""
OPEN, DENIED, CLOSED = "open-a", "denied-a", "closed-a"
RULES: Final = (
    *(
        ("--allow-principal", "User:app", "--operation", "All", *resource)
        for resource in (("--topic", "*"), ("--group", "*"), ("--transactional-id", "*"), ("--cluster",))
    ),
    ("--deny-principal", "User:app", "--operation", "All", "--topic", "denied-", "--resource-pattern-type", "prefixed"),
    (
        *("--allow-principal", "User:guest", "--operation", "Read"),
        *("--topic", "open-", "--resource-pattern-type", "prefixed"),
    ),
    ("--allow-principal", f"User:{READER}", "--operation", "Read", "--topic", OPEN),
    ("--allow-principal", f"User:{READER}", "--operation", "Write", "--topic", CLOSED),
    *(("--allow-principal", f"User:{name}", "--operation", "Read", "--group", "nobody") for name in ("guest", READER)),
    ("--allow-principal", "User:slow", "--operation", "Write", "--topic", OPEN),
)
REFUSED: Final = "TOPIC_AUTHORIZATION_FAILED"
ANSWERS: Final = {
    # Whether a user reads and writes each topic, and sees the settings of a broker.
    (ADMIN, OPEN): ("reads", "writes"),
    (ADMIN, DENIED): ("reads", "writes"),
    (ADMIN, CLOSED): ("reads", "writes"),
    (ADMIN, "cluster"): "told",
    ("app", OPEN): ("reads", "writes"),
    ("app", DENIED): (REFUSED, REFUSED),
    ("app", CLOSED): ("reads", "writes"),
    ("app", "cluster"): "told",
    ("guest", OPEN): ("reads", REFUSED),
    ("guest", DENIED): (REFUSED, REFUSED),
    ("guest", CLOSED): (REFUSED, REFUSED),
    ("guest", "cluster"): "CLUSTER_AUTHORIZATION_FAILED",
    (READER, OPEN): ("reads", REFUSED),
    (READER, DENIED): (REFUSED, REFUSED),
    (READER, CLOSED): (REFUSED, "writes"),
    (READER, "cluster"): "CLUSTER_AUTHORIZATION_FAILED",
}


class SecuredCluster(RollingCluster):
    """Clients and brokers log in by SCRAM over SASL_SSL, or show a certificate to the listener CERTS. Controllers show
    certificates to each other (`mutual`), or log in by PLAIN over SASL_SSL. An authorizer decides."""

    def __init__(self, directory: Path, *, dynamic: bool, release: str, mutual: bool, pkcs12: bool) -> None:
        self.directory = directory
        self._write_keys()
        scram = f"SCRAM-SHA-512=[name={{}},password={PASSWORD}]"
        super().__init__(
            directory,
            dynamic=dynamic,
            release=release,
            settings=self._settings(mutual=mutual, pkcs12=pkcs12),
            login=self.login_of(ADMIN),
            format_options=[word for name in (BROKER, ADMIN) for word in ("--add-scram", scram.format(name))],
        )
        self.cert_ports = dict(zip(self.members, free_ports(3), strict=True))
        for number, member in self.members.items():
            member.kafka.settings["listeners"] = ",".join(
                f"{name}://{HOST}:{port}"
                for name, port in (
                    ("CLIENTS", member.kafka.port),
                    ("CERTS", self.cert_ports[number]),
                    ("CONTROLLER", member.kafka.controller_port),
                )
            )

    def _write_keys(self) -> None:
        for name in ("node", READER):
            (self.directory / f"{name}.pem").write_text(authority().issued(name), encoding="utf-8")
        (self.directory / "ca.pem").write_text(authority().pem, encoding="utf-8")

    def _settings(self, *, mutual: bool, pkcs12: bool) -> dict[str, str]:
        login = f'{PLAIN} required username="node" password="{PASSWORD}" user_node="{PASSWORD}";'
        controllers = (
            {"listener.name.controller.ssl.client.auth": "required"}
            if mutual
            else {
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": login,
            }
        )
        return {
            "listener.security.protocol.map": (
                f"CLIENTS:SASL_SSL,CERTS:SSL,CONTROLLER:{'SSL' if mutual else 'SASL_SSL'}"
            ),
            "inter.broker.listener.name": "CLIENTS",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM} required username="{BROKER}" password="{PASSWORD}";'
            ),
            "listener.name.certs.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:node;User:{BROKER};User:{ADMIN}",
            "delegation.token.secret.key": "the secret of all nodes",
            **controllers,
            **(pkcs12_stores(self.directory) if pkcs12 else pem_stores(self.directory)),
        }

    def login_of(self, user: str, password: str = PASSWORD) -> dict[str, str]:
        """librdkafka's settings of a user."""
        if user == READER:
            key = str(self.directory / f"{READER}.pem")
            keys = {"ssl.key.location": key, "ssl.certificate.location": key}
            return {"security.protocol": "SSL", "ssl.ca.location": str(self.directory / "ca.pem"), **keys}
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def address(self, number: int, user: str = ADMIN) -> str:
        port = self.cert_ports[number] if user == READER else self.members[number].kafka.port
        return f"{HOST}:{port}"

    def client(self, user: str, number: int, password: str = PASSWORD) -> dict[str, Any]:
        return {
            **self.login_of(user, password),
            "bootstrap.servers": self.address(number, user),
            "log_level": 0,
        }

    def command_config(self, user: str, password: str = PASSWORD, *, token: bool = False) -> str:
        path = self.directory / f"{user}.properties"
        extension = ' tokenauth="true"' if token else ""
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.directory / 'ca.pem'}\n"
            f'sasl.jaas.config={SCRAM} required username="{user}" password="{password}"{extension};\n',
            encoding="utf-8",
        )
        return str(path)

    def kraft(self, *arguments: str, number: int, by: str | None = None) -> int:
        config = by or self.command_config(ADMIN)
        return main([*arguments, "-b", self.address(number), "--command-config", config, "--timeout", "30"])

    def add_user(self, name: str, number: int) -> None:
        """Give a user a password by way of a node."""
        change = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        admin = AdminClient(self.client(ADMIN, number))
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(60)

    def logs_in(self, user: str, number: int, password: str = PASSWORD) -> bool:
        try:
            AdminClient(self.client(user, number, password)).list_topics(timeout=10)
        except KafkaException:
            return False
        return True

    def refused_at_controller(self, number: int) -> bool:
        """Whether a connection without certificate or login gets no answer from a node's controller."""
        with pytest.raises((OSError, EOFError)):
            context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
            with socket.create_connection((HOST, self.members[number].kafka.controller_port), timeout=10) as plain:
                with context.wrap_socket(plain, server_hostname=HOST) as wrapped:
                    wrapped.sendall(bytes.fromhex("0000001300370000000000010004746573740001010101"))
                    if not wrapped.recv(1):
                        raise EOFError
        return True

    def answers(self) -> dict[tuple[int, str, str], Any]:
        """What each user may do, asked of every node."""
        return {
            (number, user, what): self._told(user, number)
            if what == "cluster"
            else (self._read(user, number, what), self._write(user, number, what))
            for number in self.members
            for user, what in ANSWERS
        }

    def _told(self, user: str, number: int) -> str:
        admin = AdminClient(self.client(user, number))
        asked = ConfigResource(ResourceType.BROKER, str(number))
        try:
            admin.describe_configs([asked])[asked].result(30)
        except KafkaException as problem:
            return str(problem.args[0].name())
        return "told"

    def _read(self, user: str, number: int, topic: str) -> str:
        consumer = Consumer({**self.client(user, number), "group.id": "nobody", "enable.partition.eof": True})
        try:
            hidden = consumer.list_topics(topic, timeout=30).topics[topic].error
            if hidden is not None:
                return str(hidden.name())
            consumer.assign([TopicPartition(topic, 0, 0)])
            message: Message | None = None
            deadline = time.monotonic() + 60
            while message is None:
                assert time.monotonic() < deadline, (user, number, topic)
                message = consumer.poll(1)
            problem = message.error()
            return "reads" if problem is None or problem.code() == KafkaError._PARTITION_EOF else str(problem.name())
        finally:
            consumer.close()

    def _write(self, user: str, number: int, topic: str) -> str:
        told: list[KafkaError | None] = []
        producer = Producer({**self.client(user, number), "message.timeout.ms": 30_000})
        producer.produce(topic, b"x", partition=0, on_delivery=lambda problem, _: told.append(problem))
        assert producer.flush(40) == 0
        return "writes" if told[0] is None else str(told[0].name())

    def throttled_ms(self, number: int) -> int:
        """The longest delay of requests that a producer of the user slow is told."""
        delays = [0]
        producer = Producer(
            {**self.client("slow", number), "throttle_cb": lambda event: delays.append(int(event.throttle_time * 1000))}
        )
        for _ in range(5):  # More than the limit allows in the eleven seconds that it looks at.
            producer.produce(OPEN, b"x" * 60_000, partition=0)
            producer.flush(60)
        until(lambda: bool(producer.poll(0.1)) or max(delays) > 0, "throttled request", 20)
        return max(delays)

    def quotas(self, number: int, capsys: pytest.CaptureFixture[str]) -> Any:
        capsys.readouterr()
        assert self.kraft("quotas", "list", "-o", "json", number=number) == 0
        return json.loads(capsys.readouterr().out)


def pem_stores(directory: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


def pkcs12_stores(directory: Path, kind: str = "PKCS12") -> dict[str, str]:
    """Stores that Java's keytool makes, of that type."""
    own, trust = directory / f"node.{kind.lower()}", directory / f"trust.{kind.lower()}"
    made = directory / "made.p12"
    password = ("-passout", f"pass:{STORE_PASSWORD}")
    run("openssl", "pkcs12", "-export", "-in", str(directory / "node.pem"), "-out", str(made), *password)
    target = ("-storetype", kind, "-storepass", STORE_PASSWORD, "-noprompt")
    keytool("-importcert", "-alias", "ca", "-file", str(directory / "ca.pem"), "-keystore", str(trust), *target)
    convert(made, own, kind)
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": STORE_PASSWORD,
    }


def convert(source: Path, target: Path, kind: str) -> None:
    keytool(
        *("-importkeystore", "-srckeystore", str(source), "-destkeystore", str(target), "-deststoretype", kind),
        *("-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD, "-noprompt"),
    )


def keytool(*arguments: str) -> None:
    run("keytool", *arguments)


def run(*words: Iterable[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)  # type: ignore[arg-type]
    assert done.returncode == 0, (words, done.stdout, done.stderr)
