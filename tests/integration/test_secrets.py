"""Secrets that stand elsewhere (config.providers), and planted ones that may appear nowhere: one node over SASL_SSL
with every kind of secret, at the log level debug."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from jepsen.java.kafka import java
from kraft.cli.admin.app import main
from kraft.cli.config_files import process_secret_places
from kraft.common.config.providers import Providers
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.certificates import certificates

SECONDS_MAX = 60
PROVIDERS = "org.apache.kafka.common.config.provider"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
THREE = f"""\
config.providers=file,env,directory
config.providers.file.class={PROVIDERS}.FileConfigProvider
config.providers.file.param.allowed.paths={{0}}
config.providers.env.class={PROVIDERS}.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=PLANTED_.*
config.providers.directory.class={PROVIDERS}.DirectoryConfigProvider
"""
PLANTED = {
    "key": "planted-Key-8f2c",
    "node": "planted-Node-77ab",
    "alice": "planted-Alice-1d90",
    "carol": "planted-Carol-c4e1",
    "dave": "planted-Dave-5b3a",
    "guess": "planted-Guess-ee07",
    "rack": "planted-Rack-6c11",
}
"""The password of the key's file, of PLAIN's users, of SCRAM's (at format and later), one that is wrong, and a value
of a key that holds no secret."""
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required \\
  username="node" password="${{{{file:{{0}}/secrets.properties:node}}}}" \\
  user_node="${{{{file:{{0}}/secrets.properties:node}}}}" user_alice="{PLANTED["alice"]}";
listener.name.controller.plain.sasl.jaas.config={PLAIN} required username="node" \\
  password="${{{{file:{{0}}/secrets.properties:node}}}}" user_node="${{{{file:{{0}}/secrets.properties:node}}}}";
ssl.keystore.location={{0}}/locked.pem
ssl.key.password=${{{{directory:{{0}}/mounted:key}}}}
ssl.truststore.location={{0}}/ca.pem
broker.rack=${{{{env:PLANTED_RACK}}}}
kraft.admin.authentication=basic
"""


class Planted:
    def __init__(self, directory: Path) -> None:
        self.directory = certificates().write(directory)
        key = load_pem_private_key(certificates().node_key.encode(), None)
        locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PLANTED["key"].encode()))
        (directory / "locked.pem").write_bytes(locked + certificates().node_chain.encode())
        (directory / "mounted").mkdir()
        (directory / "mounted/key").write_text(PLANTED["key"])
        (directory / "secrets.properties").write_text(f"node={PLANTED['node']}\nalice={PLANTED['alice']}\n")
        (directory / "node.properties").write_text(THREE.format(directory) + NODE.format(directory))
        self.node = NodeProcess(
            directory / "node",
            *("--config", str(directory / "node.properties"), "--log-level", "debug"),
            *("--add-scram", "SCRAM-SHA-512=[name=carol,password=${env:PLANTED_CAROL}]"),
            admin=True,
            environment={"PLANTED_RACK": PLANTED["rack"], "PLANTED_CAROL": PLANTED["carol"]},
        )

    def client(self, user: str, password: str, mechanism: str = "PLAIN") -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": self.node.bootstrap,
                "log_level": 0,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(self.directory / "ca.pem"),
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
            }
        )

    def command_config(self, key: str = "alice") -> str:
        path = self.directory / f"{key}-client.properties"
        path.write_text(
            THREE.format(self.directory)
            + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            + f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory}/ca.pem\n"
            + f'sasl.jaas.config={PLAIN} required username="alice" '
            + f'password="${{file:{self.directory}/secrets.properties:{key}}}";\n'
        )
        return str(path)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    found = Planted(tmp_path_factory.mktemp("secrets"))
    with found.node.start():
        yield found


def test_clients_with_the_secrets_log_in_and_no_secret_is_shown_anywhere(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    alice = planted.client("alice", PLANTED["alice"])
    alice.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
    assert planted.client("carol", PLANTED["carol"], "SCRAM-SHA-512").list_topics(timeout=SECONDS_MAX).topics
    change = UserScramCredentialUpsertion(
        "dave", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PLANTED["dave"].encode()
    )
    alice.alter_user_scram_credentials([change])["dave"].result(SECONDS_MAX)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        with pytest.raises(KafkaException):
            planted.client("alice", PLANTED["guess"], mechanism).list_topics(timeout=3)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    described = alice.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert (described["broker.rack"].value, described["broker.rack"].is_sensitive) == (None, True)
    shown += [f"{entry.name}={entry.value} {entry.synonyms}" for entry in described.values()]
    address = ("--bootstrap-server", planted.node.bootstrap, "--command-config")
    assert main(["topics", "list", *address, planted.command_config()]) == 0
    assert main(["configs", "describe", "broker", "1", "--all", *address, planted.command_config()]) == 0
    assert main(["topics", "list", *address, planted.command_config("missing")]) == 1
    errors = capsys.readouterr()
    assert "secrets.properties:missing} names no value" in errors.err
    shown += [errors.out, errors.err]
    assert not [text for text in shown if PLANTED["rack"] in text]  # It is registered, and told to consumers.
    for password in (PLANTED["alice"], PLANTED["guess"]):
        for path in ("/metrics", "/v1/events", "/v1/node", "/v1/users", "/v3/clusters", "/nowhere"):
            answer = httpx.get(planted.node.admin_url + path, auth=("alice", password), timeout=SECONDS_MAX)
            assert (answer.status_code == 401) == (password == PLANTED["guess"]), (path, answer)
            shown.append(answer.text + str(answer.headers))
    assert planted.node.stop() == 0
    files = [path for path in planted.node.directory.rglob("*") if path.is_file()]
    assert planted.node.log_path in files
    haystack = [text.encode() for text in shown] + [path.read_bytes() for path in files]
    for secret in [secret for name, secret in PLANTED.items() if name != "rack"]:
        for form in (secret.encode(), base64.b64encode(secret.encode()), secret.encode().hex().encode()):
            assert not [text for text in haystack if form in text], secret


def test_a_secret_on_the_command_line_aborts_the_start(tmp_path: Path) -> None:
    from kraft.cli.node import UNUSABLE
    from kraft.cli.node import main as node

    secret = f'listener.name.plaintext.plain.sasl.jaas.config={PLAIN} required username="a" password="planted";'
    assert node(["--data-dir", str(tmp_path / "data"), "--admin", "off", "--set", secret]) == UNUSABLE


SHOW = """
import java.util.*;
import org.apache.kafka.clients.admin.AdminClientConfig;
public class Show {
  public static void main(String[] arguments) throws Exception {
    Properties given = new Properties();
    given.load(new java.io.FileReader(arguments[0]));
    given.put("bootstrap.servers", "a:1");
    for (int i = 1; i < arguments.length; i++) {
      given.put("client.id", arguments[i]);
      try { System.out.println("=" + new AdminClientConfig(given).getString("client.id")); }
      catch (Exception problem) { System.out.println("!"); }
    }
  }
}
"""


@pytest.mark.java
def test_config_variables_are_resolved_as_by_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Kafka gives an error, or leaves a variable of a provider as it stands, this is an error here."""
    require_capability("java17")
    require_capability("mvn")
    monkeypatch.setenv("PLANTED_A", "from env")
    (tmp_path / "d/sub").mkdir(parents=True)
    (tmp_path / "d/token").write_text("content")
    (tmp_path / "d/sub/g").write_text("g")
    (tmp_path / "s.properties").write_text("pw=al:pha\nk.e=be ta\nempty=\n")
    (tmp_path / "node.properties").write_text(THREE.format(tmp_path))
    (tmp_path / "Show.java").write_text(SHOW)
    file, folder = f"${{file:{tmp_path}/s.properties:", f"${{directory:{tmp_path}/d:"
    texts = [
        file + "pw}", f"a{file}pw}}b{file}k.e}}c", f"$${file[1:]}pw}}", file + "empty}", file + "missing}",
        file + "pw:x}", f"${{file:{tmp_path}/none:pw}}", f"${{file:{tmp_path}/d/../s.properties:pw}}",
        "${file:/etc/../etc/hostname:pw}",
        "${file:pw}", "${file::pw}", "${other:x:pw}", "${other:pw}", "${}", "plain $1 {x}", "${env:PLANTED_A}",
        "${env::PLANTED_A}", "${env:x:PLANTED_A}", "${env:HOME}", "${env:PLANTED_NONE}", folder + "token}",
        folder + "sub}", folder + "sub/g}", folder + "../s.properties}", folder + "none}",
        f"${{directory:{tmp_path}/none:token}}",
    ]  # fmt: skip
    command = [*java("-Xmx256M"), str(tmp_path / "Show.java"), str(tmp_path / "node.properties"), *texts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    kafka = [line for line in done.stdout.splitlines() if line[:1] in ("=", "!")]
    assert len(kafka) == len(texts), done
    lines = (line.partition("=") for line in (tmp_path / "node.properties").read_text().splitlines())
    providers = Providers({key: value for key, _, value in lines}, process_secret_places())
    known = ("${file:", "${env:", "${directory:")
    for text, theirs in zip(texts, kafka, strict=True):
        if theirs == "!" or (theirs[1:] == text and text.startswith(known)):
            with pytest.raises(ValueError, match=r"names no value|could not read|knows no paths"):
                providers.resolve(text)
        else:
            assert providers.resolve(text).strip() == theirs[1:], text
