"""config.providers: what is put in, what is refused, and that nothing of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.cli.config_files import process_secret_places, refuse_secrets
from kraft.common.config.dynamic.describe import BrokerLayers, describe_broker
from kraft.common.config.node.format_options import FormatOptions
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import Surroundings, load_node_config
from kraft.common.config.providers import SECRET_BYTES_MAX, Providers, SecretPlaces
from kraft.common.errors import ConfigurationError

CLASSES = "org.apache.kafka.common.config.provider"
THREE = (
    f"config.providers=file, env,directory\nconfig.providers.file.class={CLASSES}.FileConfigProvider\n"
    f"config.providers.env.class={CLASSES}.EnvVarConfigProvider\n"
    f"config.providers.directory.class={CLASSES}.DirectoryConfigProvider\n"
)
FILES = {"/s/a.properties": "pw=al:pha\nk.e = be ta\n", "/s/token": "content\n", "/s/broken.properties": "a=\\uZZZZ"}
PLACES = SecretPlaces(
    read=FILES.get, exists=lambda path: path in ("/s", "/s/other"), environment={"PW": "from-env", "N": "seven"}
)


def load(text: str, *sets: str, credentials: tuple[str, ...] = ()) -> NodeConfig:
    return load_node_config(
        sets=sets,
        files=[ConfigFile("a.properties", THREE + text)],
        surroundings=Surroundings(secret_places=PLACES),
        format_options=FormatOptions(add_scram=credentials),
    )


def problems(text: str, *sets: str, credentials: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load(text, *sets, credentials=credentials)
    return refused.value.problems


def providers(name: str, kind: str, **parameters: str) -> Providers:
    own = f"config.providers.{name}."
    given = {f"{own}param.{key.replace('_', '.')}": text for key, text in parameters.items()}
    return Providers({"config.providers": name, f"{own}class": f"{CLASSES}.{kind}", **given}, PLACES)


@pytest.mark.parametrize(
    ("kind", "text", "resolved"),
    [
        ("FileConfigProvider", "a${p:/s/a.properties:pw}b${p:/s/a.properties:k.e}c", "aal:phabbe tac"),
        ("FileConfigProvider", "$${p:/s/../s/a.properties:pw}", "$al:pha"),
        ("FileConfigProvider", "${q:/s/a.properties:pw} ${q:pw} ${} $1", "${q:/s/a.properties:pw} ${q:pw} ${} $1"),
        ("EnvVarConfigProvider", "${p:PW} ${p::PW}", "from-env from-env"),
        ("DirectoryConfigProvider", "${p:/s:token}", "content\n"),
    ],
)
def test_config_variables_are_replaced_as_by_kafka(kind: str, text: str, resolved: str) -> None:
    assert providers("p", kind).resolve(text) == resolved


@pytest.mark.parametrize(
    ("kind", "parameters", "text"),
    [
        ("FileConfigProvider", {}, "${p:/s/a.properties:other}"),
        ("FileConfigProvider", {}, "${p:/s/a.properties:pw:x}"),
        ("FileConfigProvider", {}, "${p:/s/none.properties:pw}"),
        ("FileConfigProvider", {}, "${p:/s/broken.properties:a}"),
        ("FileConfigProvider", {}, "${p:pw}"),
        ("FileConfigProvider", {"allowed_paths": "/s/other"}, "${p:/s/a.properties:pw}"),
        ("FileConfigProvider", {"allowed_paths": "/s/other"}, "${p:/s/other/../a.properties:pw}"),
        ("FileConfigProvider", {"allowed_paths": "/s"}, "${p:s/a.properties:pw}"),
        ("EnvVarConfigProvider", {}, "${p:OTHER}"),
        ("EnvVarConfigProvider", {}, "${p:path:PW}"),
        ("EnvVarConfigProvider", {"allowlist_pattern": "P"}, "${p:PW}"),
        ("DirectoryConfigProvider", {}, "${p:/s:other}"),
        ("DirectoryConfigProvider", {}, "${p:/s:../s/token}"),
        ("DirectoryConfigProvider", {}, "${p:/s:..}"),
        ("DirectoryConfigProvider", {"allowed_paths": "/s/other"}, "${p:/s:token}"),
    ],
)
def test_a_variable_without_a_value_is_rejected(kind: str, parameters: dict[str, str], text: str) -> None:
    """Kafka would take the variable's own text for the value, or end with an exception."""
    found = providers("p", kind, **parameters)
    assert found.problems == []
    with pytest.raises(ValueError, match=r"^\$\{p:") as refused:
        found.resolve(text)
    assert not [secret for secret in ("al:pha", "from-env", "content") if secret in str(refused.value)]


def test_allowed_files_and_environment_variables_are_read() -> None:
    assert providers("p", "FileConfigProvider", allowed_paths="/s/other,/s").resolve("${p:/s/a.properties:pw}")
    assert providers("p", "EnvVarConfigProvider", allowlist_pattern="P.*").resolve("${p:PW}") == "from-env"


@pytest.mark.parametrize(
    ("kind", "parameters", "sentence"),
    [
        ("Other", {}, "class is not one of"),
        ("FileConfigProvider", {"allowed_paths": "s"}, "path s is not absolute"),
        ("FileConfigProvider", {"allowed_paths": "/nowhere"}, "path /nowhere does not exist"),
        ("EnvVarConfigProvider", {"allowlist_pattern": "["}, "no regular expression"),
        ("EnvVarConfigProvider", {"allowed_paths": "/s"}, "is not known; EnvVarConfigProvider takes"),
    ],
)
def test_an_invalid_config_provider_is_a_problem(kind: str, parameters: dict[str, str], sentence: str) -> None:
    [problem] = providers("p", kind, **parameters).problems
    assert sentence in problem


def test_a_node_receives_resolved_values_and_shows_none() -> None:
    config = load("ssl.key.password=${file:/s/a.properties:pw}\nbroker.rack=${env:PW}\nssl.protocol=${other:x}\n")
    assert (config.values["ssl.key.password"], config.rack) == ("al:pha", "from-env")
    assert config.values["ssl.protocol"] == "${other:x}", "no provider has that name"
    described = {each.name: each for each in describe_broker(BrokerLayers(config, {}, {}))}
    for name in ("ssl.key.password", "broker.rack"):
        entry = described[name]
        assert (entry.value, entry.sensitive, [each.value for each in entry.synonyms]) == (None, True, [None])
    assert described["config.providers"].value == "file,env,directory"


def test_credentials_for_formatting_can_come_from_a_provider() -> None:
    config = load("", credentials=("SCRAM-SHA-256=[name=a,password=${env:PW}]",))
    assert config.format_options.add_scram == ("SCRAM-SHA-256=[name=a,password=from-env]",)
    [problem] = problems("", credentials=("SCRAM-SHA-256=[name=a,password=${env:OTHER}]",))
    assert problem.startswith("--add-scram: ${env:OTHER} names no value")


def test_provider_errors_name_the_key_and_not_the_value() -> None:
    found = problems("num.partitions=${env:N}\nlisteners=PLAINTEXT://${env:PW},CONTROLLER://127.0.0.1:9093\n")
    assert [each for each in found if "num.partitions, which stands elsewhere" in each]
    assert not [each for each in found if "seven" in each or "from-env" in each]
    found = problems("ssl.key.password=${env:OTHER}\nconfig.providers.x.class=y\nnonsense=${env:PW}\n")
    assert [each for each in found if "a.properties:5: ssl.key.password: ${env:OTHER} names no value" in each]
    assert not [each for each in found if "from-env" in each]


def test_large_and_binary_files_give_no_value(tmp_path: Path) -> None:
    read = process_secret_places().read
    (tmp_path / "right").write_text("x\r\n", newline="")
    (tmp_path / "large").write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff")
    found = [read(str(tmp_path / name)) for name in ("right", "large", "binary", "none", ".")]
    assert found == ["x\r\n", None, None, None, None]


JAAS = "listener.name.a.plain.sasl.jaas.config=M required "


@pytest.mark.parametrize(
    ("pair", "is_refused"),
    [
        ("ssl.key.password=wonderland", True),
        ("ssl.key.password=${file:/s:pw}", False),
        ("ssl.key.password=", False),
        ("ssl.key.password=x${file:/s:pw}", True),
        (JAAS + 'username="a" password="wonderland";', True),
        (JAAS + 'username="a" password="${env:A}" user_b="wonderland";', True),
        (JAAS + 'username="a" password="${env:A}" user_b="${env:B}";', False),
        ("num.partitions=3", False),
        ("nonsense", False),
    ],
)
def test_a_secret_on_a_command_line_is_rejected(pair: str, is_refused: bool) -> None:
    found = refuse_secrets([pair])
    assert bool(found) == is_refused
    assert all("config.providers" in each and "wonderland" not in each for each in found)
