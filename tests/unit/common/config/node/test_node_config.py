"""How a node's configuration is put together: who wins, what is derived, and what one report says about mistakes."""

from __future__ import annotations

import pytest

from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.config.endpoints import Address, Endpoint, Voter
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import Surroundings, load_node_config
from kraft.common.config.properties import Property, parse_properties
from kraft.common.errors import ConfigurationError

HERE = Surroundings(working_directory="/srv", host_name="here.example")


def load(
    *options: tuple[str, str],
    sets: list[str] | None = None,
    files: list[str] | None = None,
    environment: dict[str, str] | None = None,
) -> NodeConfig:
    named = [ConfigFile(f"{number}.properties", text) for number, text in enumerate(files or [], 1)]
    return load_node_config(
        options=options, sets=sets or [], files=named, environment=environment or {}, surroundings=HERE
    )


def problems(
    *options: tuple[str, str],
    sets: list[str] | None = None,
    files: list[str] | None = None,
    environment: dict[str, str] | None = None,
) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load(*options, sets=sets, files=files, environment=environment)
    return refused.value.problems


def test_a_node_without_configuration_is_its_own_quorum_on_loopback() -> None:
    config = load()
    assert (config.roles, config.node_id, config.quorum_of_one) == (("broker", "controller"), 1, True)
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092), Endpoint("CONTROLLER", "127.0.0.1", 9093))
    assert config.advertised == config.listeners
    assert (config.log_dirs, config.metadata_log_dir) == (("/srv/kraft-data",), "/srv/kraft-data")
    assert config.admin_address == Address("127.0.0.1", 9644)
    assert config.integer("offsets.topic.replication.factor") == 1
    assert (config.cluster_id, config.format_requested, config.warnings) == (None, False, ())


def test_a_member_of_several_is_not_a_quorum_of_one_and_replicates_internal_topics() -> None:
    config = load(("--voters", "1@a:1,2@b:2,3@c:3"))
    assert config.voters == (Voter(1, "a", 1), Voter(2, "b", 2), Voter(3, "c", 3))
    assert (config.quorum_of_one, config.integer("offsets.topic.replication.factor")) == (False, 3)
    assert not load(("--bootstrap-controllers", "a:1")).quorum_of_one
    assert load(("--voters", "1@localhost:9093")).quorum_of_one


def test_a_quorum_of_one_has_no_initial_rebalance_delay_by_default() -> None:
    name = "group.initial.rebalance.delay.ms"
    assert load().integer(name) == 0
    assert load(sets=(f"{name}=3000",)).integer(name) == 3000
    assert load(("--voters", "1@a:1,2@b:2,3@c:3")).integer(name) == 3000


def test_the_command_line_overrides_later_files_earlier_files_and_the_environment_in_that_order() -> None:
    environment = {
        "KAFKA_NUM_PARTITIONS": "2",
        "KAFKA_LOG_ROLL_HOURS": "2",
        "KAFKA_NODE_ID": "2",
        "KAFKA_DEFAULT_REPLICATION_FACTOR": "2",
    }
    files = ["num.partitions=3\nlog.roll.hours=3\nnode.id=3", "num.partitions=4\nlog.roll.hours=4"]
    config = load(sets=["num.partitions=5"], files=files, environment=environment)
    assert [config.integer(name) for name in ("num.partitions", "log.roll.hours", "default.replication.factor")] == [
        5,
        4,
        2,
    ]
    assert config.node_id == 3
    assert config.settings["log.roll.hours"].origin == "2.properties:2"
    assert config.settings["default.replication.factor"].origin == "environment KAFKA_DEFAULT_REPLICATION_FACTOR"


def test_two_values_for_one_key_on_the_command_line_are_an_error() -> None:
    assert problems(("--node-id", "1"), sets=["node.id=2"]) == [
        "node.id: two values on the command line, '1' by --node-id and '2' by --set"
    ]
    assert problems(("--node-id", "1"), ("--node-id", "2"))[0].startswith("node.id: two values")
    twice = problems(("--listen", "a:1"), sets=["listeners=PLAINTEXT://b:2,CONTROLLER://b:3"])
    assert twice == ["--listen: listeners is given by --set as well; name the address once"]
    assert load(("--node-id", "7"), sets=["node.id=7"]).node_id == 7


def test_each_listen_option_replaces_one_address() -> None:
    file = "listeners=CONTROLLER://c:20,INSIDE://b:10\nlistener.security.protocol.map=INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = load(("--listen", "0.0.0.0:1"), ("--controller-listen", "[::1]:2"), files=[file])
    assert config.listeners == (Endpoint("CONTROLLER", "::1", 2), Endpoint("INSIDE", "0.0.0.0", 1))
    assert [str(endpoint) for endpoint in config.advertised] == ["CONTROLLER://[::1]:2", "INSIDE://here.example:1"]
    assert config.inter_broker_listener_name == "INSIDE"
    assert problems(("--role", "controller"), ("--listen", "a:1")) == [
        "--listen: this node has no broker role, so it has no broker listener"
    ]


def test_advertised_listeners_follow_the_bound_ports_unless_set() -> None:
    config = load(("--listen", "127.0.0.1:0"), ("--controller-listen", "127.0.0.1:0"))
    assert config.advertised_listeners({"PLAINTEXT": 55, "CONTROLLER": 66})[0].port == 55
    fixed = load(("--listen", ":0"), sets=["advertised.listeners=PLAINTEXT://kafka.example:9094"])
    assert fixed.advertised_listeners({"PLAINTEXT": 55, "CONTROLLER": 66})[0] == Endpoint(
        "PLAINTEXT", "kafka.example", 9094
    )


def test_a_pure_broker_needs_a_quorum_address_and_a_pure_controller_can_be_the_quorum() -> None:
    assert problems(("--role", "broker"))[0].startswith("a broker without a controller role must know its quorum")
    broker = load(("--role", "broker"), ("--bootstrap-controllers", "c1:9093,c2:9093"))
    assert (broker.bootstrap_controllers, broker.is_controller) == ((Address("c1", 9093), Address("c2", 9093)), False)
    assert [endpoint.name for endpoint in broker.listeners] == ["PLAINTEXT"]
    assert load(("--role", "controller")).quorum_of_one


def test_the_voters_and_the_role_must_agree() -> None:
    assert "its id 4 is not among the voters [1, 2]" in problems(("--node-id", "4"), ("--voters", "1@a:1,2@b:2"))[0]
    assert "this node is no controller" in problems(("--role", "broker"), ("--voters", "1@a:1,2@b:2"))[0]


def test_only_a_controller_of_a_dynamic_quorum_can_join_the_voters_by_itself() -> None:
    enabled = ["controller.quorum.auto.join.enable=true"]
    servers = ("--bootstrap-controllers", "c1:9093,c2:9093")
    assert load(servers, sets=enabled).flag("controller.quorum.auto.join.enable")
    assert load(("--role", "controller"), servers, sets=enabled).flag("controller.quorum.auto.join.enable")
    assert problems(("--role", "broker"), servers, sets=enabled) == [
        "--set: controller.quorum.auto.join.enable: only a controller can be a voter, and this node is none: remove "
        "the key, or add controller to process.roles"
    ]
    static = ("--voters", "1@a:1,2@b:2")
    assert problems(("--node-id", "1"), static, sets=enabled) == [
        "--set: controller.quorum.auto.join.enable: no controller can join the static voters of "
        "controller.quorum.voters: name the controllers in controller.quorum.bootstrap.servers instead, or remove the "
        "key"
    ]
    assert load(("--node-id", "1"), static, sets=["controller.quorum.auto.join.enable=false"])


def test_every_problem_is_in_one_report_with_its_place() -> None:
    found = problems(
        ("--admin", "nowhere"),
        sets=["retention.ms=5", "zookeeper.connect=x"],
        files=[
            "# a comment\nnum.partition=3\nnum.partitions=0\n\nssl.provider=SunJSSE\n"
            "broker.heartbeat.interval.ms=20000\nnonsense=1"
        ],
    )
    assert found == [
        "1.properties:2: unknown key num.partition - did you mean num.partitions?",
        "1.properties:7: unknown key nonsense - `kraft docs configuration` lists every key",
        "--set: unknown key retention.ms - it is a topic's key; the broker's default for it is log.retention.ms",
        "--set: unknown key zookeeper.connect - Kafka 4 removed it: a node of ZooKeeper's cluster cannot be replaced. "
        "Migrate the cluster to KRaft with Kafka 3.9, the bridge release, and remove the key",
        "1.properties:3: Invalid value 0 for configuration num.partitions: Value must be at least 1 (valid: [1,...])",
        (
            "1.properties:5: ssl.provider is not served yet. The Java provider of TLS. Remove "
            "it or give it its default, which is none"
        ),
        "--admin: kraft.admin.listener: 'nowhere' is not host:port, nor is it off",
        "1.properties:6: broker.heartbeat.interval.ms (20000) must be smaller than broker.session.timeout.ms (9000)",
    ]


def test_keys_without_effect_are_reported_and_plugin_keys_are_ignored() -> None:
    config = load(
        sets=[
            "num.io.threads=9",
            "num.network.threads=3",
            "metric.reporters=com.example.Reporter",
            "confluent.telemetry.enabled=true",
        ],
        environment={"KAFKA_HOME": "/opt/kafka", "KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_BROKERS": "a:1"},
    )
    said = "\n".join(config.warnings)
    assert "num.io.threads has no effect here" in said
    assert "num.network.threads" not in said
    assert "metric.reporters names a plugin" in said
    assert "confluent.telemetry.enabled belongs to a plugin" in said
    assert "environment KAFKA_BROKERS would set brokers, which is no key: passed over" in said
    assert "KAFKA_HOME" not in said


def test_keys_that_kafka_4_removed_are_warned_of_unless_the_node_would_do_something_else_without_them() -> None:
    removed = {
        "inter.broker.protocol.version": "3.9",
        "log.message.format.version": "3.0",
        "offsets.commit.required.acks": "-1",
        "group.coordinator.new.enable": "true",
        "log.message.downconversion.enable": "true",
        "log.message.timestamp.difference.max.ms": "9223372036854775807",
        "leader.imbalance.per.broker.percentage": "10",
        "controlled.shutdown.max.retries": "3",
        "controlled.shutdown.retry.backoff.ms": "5000",
        "auto.include.jmx.reporter": "true",
        "control.plane.listener.name": "CONTROLLER",
        "broker.id.generation.enable": "true",
        "reserved.broker.max.id": "1000",
        "eligible.leader.replicas.enable": "false",
        "group.share.max.groups": "10",
        "zookeeper.connection.timeout.ms": "18000",
        "password.encoder.iterations": "4096",
    }
    config = load(files=["".join(f"{key}={text}\n" for key, text in removed.items())])
    assert [
        warning.partition(":")[2].split(" has no effect: Kafka 4 removed it")[0] for warning in config.warnings
    ] == [f"{number}: {key}" for number, key in enumerate(removed, 1)]
    for needed in ("zookeeper.connect", "zookeeper.metadata.migration.enable", "delegation.token.master.key"):
        assert f"unknown key {needed} - Kafka 4 removed it" in problems(files=[f"{needed}=x\n"])[0]


def test_the_environment_is_read_as_by_kafkas_image() -> None:
    environment = {
        "KAFKA_LISTENERS": "PLAINTEXT_HOST://:29092,PLAINTEXT://:19092,CONTROLLER://:29093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:29092,PLAINTEXT://broker:19092",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
        "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    config = load(environment=environment)
    assert config.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert [str(endpoint) for endpoint in config.advertised] == [
        "PLAINTEXT_HOST://localhost:29092",
        "PLAINTEXT://broker:19092",
        "CONTROLLER://here.example:29093",
    ]
    assert (config.integer("group.initial.rebalance.delay.ms"), config.quorum_of_one, config.warnings) == (0, True, ())


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("listeners=KERBEROS://:9092,CONTROLLER://:9093", "has no protocol for the name KERBEROS"),
        ("listeners=FOO://:9092,CONTROLLER://:9093", "listener.security.protocol.map has no protocol for the name FOO"),
        ("listeners=PLAINTEXT://:9092", "a controller needs a listener"),
        ("listeners=CONTROLLER://:9093", "a broker needs a listener that is not a controller's"),
        ("listeners=PLAINTEXT://h:9092,CONTROLLER://h:9092", "two listeners share the address h:9092"),
        ("listeners=PLAINTEXT://h:99999,CONTROLLER://h:9092", "a port above 65535"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "no address that a client could connect to"),
        ("advertised.listeners=OTHER://h:9092", "no protocol for the name OTHER"),
        ("kraft.admin.listener=127.0.0.1:9092", "a Kafka listener has the address 127.0.0.1:9092 already"),
        ("kraft.cluster.id=nope", "not a Kafka UUID"),
        (
            "cordoned.log.dirs=/else",
            "cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /else",
        ),
        ("cordoned.log.dirs=*,/srv/kraft-data", "is set to *, it must not contain other values"),
        ("log.retention.ms=0", "log.retention.ms must be -1 (for ever) or at least 1"),
        ("queued.max.request.bytes=1000", "must hold one largest request"),
        ("replica.selector.class=com.example.Mine", "cannot be loaded"),
        ("max.connections.per.ip.overrides=h:many", "'h:many' is not host:count"),
        ("max.connections.per.ip.overrides=h:\u00b2", "'h:\u00b2' is not host:count"),
        ("group.consumer.heartbeat.interval.ms=20000", "must not exceed group.consumer.max.heartbeat.interval.ms"),
        ("broker.id=9", "broker.id 9 and node.id 1 differ"),
        ("listener.name.plaintext.nonsense=1", "unknown key listener.name.plaintext.nonsense"),
        ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "cannot be loaded; built in is org.apache"),
        ("kraft.admin.principal=admin", "kraft.admin.principal must be a principal, as User:http-admin"),
    ],
)
def test_an_unworkable_configuration_is_rejected(setting: str, complaint: str) -> None:
    sets = [setting] + (["node.id=1"] if setting.startswith("broker.id") else [])
    assert any(complaint in problem for problem in problems(sets=sets))


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("super.users=User:a;b", "super.users: 'b' is not a principal; write User:b"),
        ("allow.everyone.if.no.acl.found=perhaps", "allow.everyone.if.no.acl.found"),
    ],
)
def test_the_keys_of_an_authorizer_must_be_right_where_there_is_one(setting: str, complaint: str) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert any(complaint in problem for problem in problems(sets=[authorizer, setting]))


@pytest.mark.parametrize(
    "setting",
    [
        "super.users=User:a;User:b",
        "super.users=a;b",
        "allow.everyone.if.no.acl.found=true",
        "allow.everyone.if.no.acl.found=perhaps",
    ],
)
@pytest.mark.parametrize("authorizer", [[], ["authorizer.class.name="]], ids=["no class", "an empty class"])
def test_the_keys_of_an_authorizer_are_passed_over_with_one_warning_where_there_is_none(
    setting: str, authorizer: list[str]
) -> None:
    """As in Kafka, whose table of keys lacks them: only its authorizer reads them."""
    config = load(sets=[*authorizer, setting])
    name, _, text = setting.partition("=")
    assert config.warnings == (
        f"--set: {name} has no effect without an authorizer: everybody may do everything. Set authorizer.class.name="
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer or remove the key",
    )
    assert config.settings[name].text == text
    assert config[name] in ("", False)


@pytest.mark.parametrize("key", ["ssl.key.password", "listener.name.a.plain.sasl.jaas.config", "ssl.key.pasword"])
def test_a_secret_given_twice_is_not_shown(key: str) -> None:
    found = problems(sets=[f"{key}=first-secret", f"{key}=second-secret"])
    assert f"{key}: two values on the command line, one that is not shown by --set" in "\n".join(found)
    assert "-secret" not in "\n".join(found)


def test_text_after_a_key_without_an_equals_sign_is_not_shown() -> None:
    assert "--set ssl.key.password...: not key=value" in problems(sets=["ssl.key.password:first-secret"])


SECURED = (
    "listeners=SSL://:0,CONTROLLER://:0",
    "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name=SSL",
)


@pytest.mark.parametrize("address", ["0.0.0.0:9644", "10.0.0.7:9644", "node.example.org:9644"])
def test_an_admin_without_logins_stays_on_loopback_beside_a_secured_listener_unless_configured(
    address: str,
) -> None:
    sets = [*SECURED, f"kraft.admin.listener={address}"]
    (problem,) = problems(sets=sets)
    assert f"kraft.admin.listener {address} would let whoever reaches it administer the cluster" in problem
    assert "the listener SSL is secured (SSL)" in problem
    assert load(sets=[*sets, "kraft.admin.remote.without.login=true"]).admin_address is not None
    assert load(sets=[f"kraft.admin.listener={address}"]).admin_address is not None


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9644", "localhost:0", "[::1]:9644", "off"], ids=["v4", "name", "v6", "off"]
)
def test_an_admin_on_loopback_needs_no_key(address: str) -> None:
    load(sets=[*SECURED, f"kraft.admin.listener={address}"])


OUTSIDE = "kraft.admin.listener=0.0.0.0:9644"
KEYSTORE = "kraft.admin.ssl.keystore.location=node.pem"


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (["kraft.admin.authentication=basic", OUTSIDE], "would take passwords over plain HTTP"),
        (["kraft.admin.authentication=mtls", KEYSTORE], "mtls needs kraft.admin.ssl.client.auth=required"),
        (
            ["kraft.admin.authentication=basic", "kraft.admin.principal=User:web"],
            "kraft.admin.principal has no effect with kraft.admin.authentication=basic",
        ),
    ],
)
def test_admin_logins_that_protect_nothing_are_rejected(sets: list[str], sentence: str) -> None:
    (problem,) = problems(sets=[*SECURED, *sets])
    assert sentence in problem


@pytest.mark.parametrize(
    "sets",
    [
        ["kraft.admin.authentication=basic"],
        ["kraft.admin.authentication=basic", OUTSIDE, KEYSTORE],
        ["kraft.admin.authentication=basic", OUTSIDE, "kraft.admin.basic.without.tls=true"],
        ["kraft.admin.authentication=mtls", OUTSIDE, KEYSTORE, "kraft.admin.ssl.client.auth=required"],
    ],
)
def test_an_admin_with_logins_may_listen_beyond_loopback_beside_secured_listeners(sets: list[str]) -> None:
    load(sets=[*SECURED, *sets])


def test_the_admin_is_anonymous_until_acls_name_it() -> None:
    assert load().text("kraft.admin.principal") == "User:http-admin"


def test_broker_id_alone_sets_the_node_id() -> None:
    assert load(sets=["broker.id=9"]).node_id == 9


def test_a_key_can_be_set_for_one_listener() -> None:
    assert load(sets=["listener.name.plaintext.max.connections=5"])["listener.name.plaintext.max.connections"] == 5


def test_per_broker_values_override_cluster_wide_ones_and_read_only_keys_stay() -> None:
    config = load(sets=["log.retention.hours=24", "num.partitions=2"])
    live = config.with_dynamic(
        {"log.retention.ms": "7000", "num.partitions": "9", "message.max.bytes": "nonsense"},
        {"log.retention.ms": "8000"},
    )
    assert effective_topic_config({}, live)["retention.ms"] == 8000
    assert effective_topic_config({}, config)["retention.ms"] == 24 * 3_600_000
    assert (live.integer("num.partitions"), live.integer("message.max.bytes")) == (2, 1_048_588)


def test_a_topic_value_comes_from_the_topic_then_the_broker_then_the_default() -> None:
    config = load(
        sets=["log.roll.hours=5", "log.retention.minutes=60", "log.segment.bytes=2000000", "log.retention.hours=-1"]
    )
    values = effective_topic_config({"cleanup.policy": "compact", "retention.bytes": "nonsense"}, config)
    assert (values["segment.ms"], values["retention.ms"], values["segment.bytes"]) == (
        5 * 3_600_000,
        3_600_000,
        2_000_000,
    )
    assert (values["cleanup.policy"], values["retention.bytes"], values["flush.ms"]) == (("compact",), -1, 2**63 - 1)
    assert effective_topic_config({"internal.segment.bytes": "100"}, config)["segment.bytes"] == 100
    assert effective_topic_config({}, load(sets=["log.retention.hours=-1"]))["retention.ms"] == -1


def test_properties_are_parsed_as_by_java() -> None:
    text = "# c\n! c\na=1\n b : 2\nc 3\nd=x\\\n   y\ne\\=f=g\\u0041\\t\\n\\q\nempty\n\n=v\r\nk=a=b"
    assert parse_properties(text) == [
        Property(3, "a", "1"),
        Property(4, "b", "2"),
        Property(5, "c", "3"),
        Property(6, "d", "xy"),
        Property(8, "e=f", "gA\t\nq"),
        Property(9, "empty", ""),
        Property(11, "", "v"),
        Property(12, "k", "a=b"),
    ]
    with pytest.raises(ValueError, match="line 1: malformed"):
        parse_properties("a=\\u00g1")


def test_a_character_beyond_16_bits_is_escaped_as_a_surrogate_pair() -> None:
    assert [each.value for each in parse_properties("a=\\uD83D\\uDE00\nb=\\ufeff\\u00e9")] == ["😀", "\ufeffé"]
    for half in ("\\uD83D", "\\uDE00", "\\uDE00\\uD83D"):
        with pytest.raises(ValueError, match="line 2: half a pair"):
            parse_properties(f"a=b\nc={half}")


def test_a_duplicate_key_in_a_file_is_reported() -> None:
    config = load(files=["num.partitions=1\nnum.partitions=2"])
    assert (config.integer("num.partitions"), config.warnings) == (
        2,
        ("1.properties:2: num.partitions replaces the value of 1.properties:1",),
    )


def test_a_listener_key_without_effect_is_reported() -> None:
    config = load_node_config(
        sets=["listener.name.plaintext.max.connections=5", "listener.name.plaintext.socket.request.max.bytes=5000"]
    )
    (warning,) = config.warnings
    assert (
        "listener.name.plaintext.socket.request.max.bytes has no effect: socket.request.max.bytes holds for "
        "all listeners together"
    ) in warning
    assert (
        config.of_listener("PLAINTEXT", "max.connections", 7),
        config.of_listener("OTHER", "max.connections", 7),
    ) == (5, 7)
