"""From gathered texts to a NodeConfig, with every problem in one report.

Steps: check every key, parse every value, reject what is unsupported, derive listeners, voters and directories, check
combinations of values (`checks`). A step that finds a problem records it and continues with the default, so that one
start reports all problems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kraft.common.broker_state import DESIRED_STATE
from kraft.common.config.definition import ConfigKey, Status
from kraft.common.config.endpoints import Address, Voter, parse_address, parse_voter
from kraft.common.config.node.checks import KEYS_OF_AUTHORIZER, STANDARD_AUTHORIZER, check_together
from kraft.common.config.node.format_options import NOTHING_ASKED, FormatOptions
from kraft.common.config.node.internal_topics import QUORUM_OF_ONE, internal_topic_settings
from kraft.common.config.node.layers import ConfigFile, RawConfig, Setting, gather
from kraft.common.config.node.listeners import Listening, derive_listeners
from kraft.common.config.node.node_config import BROKER, CONTROLLER, NodeConfig
from kraft.common.config.providers import PROVIDERS, Providers, SecretPlaces, is_provider_key
from kraft.common.config.resources import BROKER_KEYS, LISTENER_KEYS
from kraft.common.config.suggestions import explain_unknown, is_plugin_key, is_removed_without_effect
from kraft.common.config.types import Value
from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_from_text

NODE_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "log.dirs": "kraft-data",
    "controller.listener.names": "CONTROLLER",
}
"""Defaults of `kraft-node` for keys whose default in Kafka is missing, or a directory below /tmp."""

QUORUM_OF_ONE_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    **internal_topic_settings(1),
}
"""Defaults of a quorum of one. Its internal topics have one replica. A consumer, usually the only one, does not wait
three seconds for others to join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Facts about the process, from the composition root."""

    working_directory: str = "/"
    host_name: str = "localhost"
    secret_places: SecretPlaces = field(default_factory=SecretPlaces)


def load_node_config(
    *,
    options: Sequence[tuple[str, str]] = (),
    sets: Sequence[str] = (),
    files: Sequence[ConfigFile] = (),
    environment: Mapping[str, str] | None = None,
    surroundings: Surroundings | None = None,
    format_options: FormatOptions = NOTHING_ASKED,
) -> NodeConfig:
    """Load the configuration. Raises ConfigurationError with every problem. Arguments as for `layers.gather`."""
    gathered = gather(options, sets, files, environment or {})
    return _Loader(gathered, surroundings or Surroundings(), format_options).load()


class JudgedFiles(NamedTuple):
    """The problems and warnings that a node would report if it started with some files, and the resulting
    configuration."""

    problems: list[str]
    warnings: list[str]
    config: NodeConfig
    """A key with a problem has its default here."""


def judge_files(files: Sequence[ConfigFile], surroundings: Surroundings | None = None) -> JudgedFiles:
    """The problems and the warnings of a node that would start with these files."""
    loader = _Loader(gather((), (), files, {}), surroundings or Surroundings(), NOTHING_ASKED)
    config = loader.assembled()
    problems, warnings = (
        [loader.without_provided(each) for each in texts] for texts in (loader.problems, loader.warnings)
    )
    return JudgedFiles(problems, warnings, config)


class _Loader:
    """One load: collects problems while it parses."""

    def __init__(self, gathered: RawConfig, surroundings: Surroundings, format_options: FormatOptions) -> None:
        self.settings = gathered.settings
        self.problems = list(gathered.problems)
        self.warnings = list(gathered.warnings)
        self.surroundings = surroundings
        self.format_options = format_options
        self.provided: tuple[str, ...] = ()
        """Values from `config.providers`, which are not shown."""
        self.values: dict[str, Value] = {}

    def load(self) -> NodeConfig:
        config = self.assembled()
        if self.problems:
            raise ConfigurationError([self.without_provided(problem) for problem in self.problems])
        return config

    def assembled(self) -> NodeConfig:
        """Build the configuration. A key with a problem is added to the problems and gets its default."""
        self.resolve_variables()
        self.drop_unknown_keys()
        self.add_node_defaults()
        self.parse_values()
        roles = self.list("process.roles") or (BROKER, CONTROLLER)
        node_id = self.node_id()
        voters = self.voters()
        bootstrap = self.bootstrap_controllers()
        listening = derive_listeners(roles, self.values, self.settings, self.surroundings.host_name, self.problems)
        self.check_quorum(roles, node_id, voters, bootstrap)
        config = self.assemble(roles, node_id, voters, bootstrap, listening)
        self.problems += check_together(config)
        return config

    def resolve_variables(self) -> None:
        """Replace config-provider variables by their values."""
        texts = {name: setting.text for name, setting in self.settings.items() if is_provider_key(name)}
        self.provider_texts = texts
        providers = Providers(texts, self.surroundings.secret_places)
        self.problems += providers.problems
        for name, setting in list(self.settings.items()):
            if is_provider_key(name):
                if name != PROVIDERS:
                    del self.settings[name]
            elif providers.names_secret(setting.text):
                try:
                    text = providers.resolve(setting.text).strip()
                except ValueError as problem:
                    self.problems.append(f"{setting.origin}: {name}: {problem}")
                    del self.settings[name]
                else:
                    self.settings[name] = Setting(name, text, setting.origin, is_provided=True)

        self.resolve_credentials(providers)
        self.provided = tuple(providers.given)

    def resolve_credentials(self, providers: Providers) -> None:
        try:
            credentials = tuple(providers.resolve(text) for text in self.format_options.add_scram)
        except ValueError as problem:
            self.problems.append(f"--add-scram: {problem}")
        else:
            self.format_options = replace(self.format_options, add_scram=credentials)

    def without_provided(self, sentence: str) -> str:
        """Return `sentence` with every value that came from a config provider replaced by a placeholder."""
        for text in sorted(filter(None, self.provided), key=len, reverse=True):
            sentence = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "(a value that is not shown)", sentence)
        return sentence

    def drop_unknown_keys(self) -> None:
        for name in list(self.settings):
            setting = self.settings[name]
            if name.startswith("kraft.option.") and setting.origin.startswith("--") and setting.origin != "--set":
                continue
            if _row_of(name) is None:
                del self.settings[name]
                self.note_unknown(name, setting)
            elif name == DESIRED_STATE:
                self.problems.append(
                    f"{setting.origin}: {name} is set while the cluster runs (kraft brokers maintenance, "
                    "fence, decommission)"
                )

    def note_unknown(self, name: str, setting: Setting) -> None:
        if is_plugin_key(name):
            self.warnings.append(f"{setting.origin}: {name} belongs to a plugin and has no effect")
        elif is_removed_without_effect(name):
            self.warnings.append(f"{setting.origin}: {name} has no effect: {explain_unknown(name)}")
        elif setting.origin.startswith("environment "):
            self.warnings.append(f"{setting.origin} would set {name}, which is no key: passed over")
        else:
            self.problems.append(f"{setting.origin}: unknown key {name} - {explain_unknown(name)}")

    def add_node_defaults(self) -> None:
        for name, text in NODE_DEFAULTS.items():
            if name == "log.dirs" and "log.dir" in self.settings:
                continue
            if name == "node.id" and "broker.id" in self.settings:
                text = self.settings["broker.id"].text
            self.settings.setdefault(name, Setting(name, text, "default of kraft-node"))

    def parse_values(self) -> None:
        self.values = {row.name: row.default for row in BROKER_KEYS}
        for name, setting in sorted(self.settings.items()):
            row = _row_of(name)
            if row is None or self.has_no_reader(name, setting):
                continue
            try:
                self.values[name] = row.parse(setting.text)
            except ValueError as problem:
                message = (
                    f"the value of {name}, which stands elsewhere, is not usable" if setting.is_provided else problem
                )
                self.problems.append(f"{setting.origin}: {message}{_range_of(row)}")
                continue
            self.judge_status(row, name, setting)

    def has_no_reader(self, name: str, setting: Setting) -> bool:
        """Whether the key is one that only an authorizer reads, and no authorizer is configured. Then a warning is
        added; as in Kafka, the key is ignored."""
        authorizer = self.settings.get("authorizer.class.name")
        if name not in KEYS_OF_AUTHORIZER or (authorizer is not None and authorizer.text):
            return False
        self.warnings.append(
            f"{setting.origin}: {name} has no effect without an authorizer: everybody may do everything. "
            f"Set authorizer.class.name={STANDARD_AUTHORIZER} or remove the key"
        )
        return True

    def judge_status(self, row: ConfigKey, name: str, setting: Setting) -> None:
        """Reject a setting of an unsupported function: it must not look as if it had an effect."""
        if row.status == Status.ENFORCED and name != row.name and row.name not in LISTENER_KEYS:
            self.warnings.append(f"{setting.origin}: {name} has no effect: {row.name} holds for all listeners together")
        if row.status == Status.ENFORCED or row.is_default(setting.text):
            return
        if row.status == Status.REFUSED:
            remedy = f"Remove it or give it its default, {row.default_text or 'which is none'}"
            self.problems.append(f"{setting.origin}: {name} is not served yet. {row.documentation} {remedy}")
        elif row.status == Status.PLUGIN:
            self.warnings.append(f"{setting.origin}: {name} names a plugin, which has no effect. {row.documentation}")
        else:
            self.warnings.append(f"{setting.origin}: {name} has no effect here. {row.documentation}")

    def list(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return value if isinstance(value, tuple) else ()

    def node_id(self) -> int:
        node_id, broker_id = self.values["node.id"], self.values["broker.id"]
        if "broker.id" in self.settings and broker_id != node_id:
            self.problems.append(
                f"{self.settings['broker.id'].origin}: broker.id {broker_id} and node.id {node_id} differ; "
                "node.id is enough"
            )
        self.values["broker.id"] = node_id
        self.settings.setdefault("broker.id", Setting("broker.id", str(node_id), "node.id"))
        return node_id if isinstance(node_id, int) else 0

    def voters(self) -> tuple[Voter, ...]:
        voters = []
        for entry in self.list("controller.quorum.voters"):
            try:
                voters.append(parse_voter(entry))
            except ValueError as problem:
                self.note("controller.quorum.voters", str(problem))
        if len({voter.node_id for voter in voters}) != len(voters):
            self.note("controller.quorum.voters", "a node id stands there twice")
        return tuple(voters)

    def bootstrap_controllers(self) -> tuple[Address, ...]:
        addresses = []
        for entry in self.list("controller.quorum.bootstrap.servers"):
            try:
                addresses.append(parse_address(entry))
            except ValueError as problem:
                self.note("controller.quorum.bootstrap.servers", str(problem))
        return tuple(addresses)

    def note(self, name: str, problem: str) -> None:
        setting = self.settings.get(name)
        if setting is not None and setting.is_provided:
            problem = "what stands elsewhere is not usable"
        self.problems.append(f"{'default' if setting is None else setting.origin}: {name}: {problem}")

    def check_quorum(
        self, roles: tuple[str, ...], node_id: int, voters: tuple[Voter, ...], bootstrap: tuple[Address, ...]
    ) -> None:
        ids = [voter.node_id for voter in voters]
        if CONTROLLER in roles and ids and node_id not in ids:
            self.note(
                "controller.quorum.voters",
                f"this node is a controller, but its id {node_id} is not among the voters {sorted(ids)}",
            )
        if CONTROLLER not in roles and node_id in ids:
            self.note(
                "controller.quorum.voters", f"this node is no controller, but its id {node_id} is among the voters"
            )
        if self.values["controller.quorum.auto.join.enable"]:
            self.check_auto_join(roles, ids)
        if CONTROLLER not in roles and not ids and not bootstrap:
            remedy = "give controller.quorum.bootstrap.servers (--bootstrap-controllers HOST:PORT)"
            self.problems.append(f"a broker without a controller role must know its quorum: {remedy}")

    def check_auto_join(self, roles: tuple[str, ...], voter_ids: Sequence[int]) -> None:
        if CONTROLLER not in roles:
            self.note(
                "controller.quorum.auto.join.enable",
                "only a controller can be a voter, and this node is none: remove the key, or add controller to "
                "process.roles",
            )
        if voter_ids:
            self.note(
                "controller.quorum.auto.join.enable",
                "no controller can join the static voters of controller.quorum.voters: name the controllers in "
                "controller.quorum.bootstrap.servers instead, or remove the key",
            )

    def assemble(
        self,
        roles: tuple[str, ...],
        node_id: int,
        voters: tuple[Voter, ...],
        bootstrap: tuple[Address, ...],
        listening: Listening,
    ) -> NodeConfig:
        alone = CONTROLLER in roles and not bootstrap and [voter.node_id for voter in voters] in ([], [node_id])
        if alone:
            self.add_quorum_of_one_defaults()
        log_dirs = tuple(self.absolute(path) for path in self.list("log.dirs") or self.list("log.dir"))
        metadata_dir = self.values["metadata.log.dir"]
        rack = self.values["broker.rack"]
        return NodeConfig(
            values=self.values,
            settings={name: setting for name, setting in self.settings.items() if not name.startswith("kraft.option.")},
            warnings=tuple(self.without_provided(warning) for warning in self.warnings),
            roles=roles,
            node_id=node_id,
            rack=rack if isinstance(rack, str) else None,
            listeners=listening.listeners,
            advertised=listening.advertised,
            controller_listener_names=listening.controller_names,
            inter_broker_listener_name=listening.inter_broker_name,
            security_protocols=listening.protocols,
            log_dirs=log_dirs,
            metadata_log_dir=self.absolute(metadata_dir) if isinstance(metadata_dir, str) else log_dirs[0],
            voters=voters,
            bootstrap_controllers=bootstrap,
            admin_address=self.admin_address(),
            cluster_id=self.cluster_id(),
            format_requested=bool(self.values["kraft.format"]),
            quorum_of_one=alone,
            format_options=self.format_options,
            provider_texts=self.provider_texts,
            secret_places=self.surroundings.secret_places,
        )

    def add_quorum_of_one_defaults(self) -> None:
        for name, text in QUORUM_OF_ONE_DEFAULTS.items():
            if name not in self.settings:
                self.settings[name] = Setting(name, text, QUORUM_OF_ONE)
                self.values[name] = BROKER_KEYS.parse(name, text)

    def absolute(self, path: str) -> str:
        joined = path if path.startswith("/") else f"{self.surroundings.working_directory.rstrip('/')}/{path}"
        parts: list[str] = []
        for part in joined.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def admin_address(self) -> Address | None:
        text = str(self.values["kraft.admin.listener"])
        if text.lower() == "off":
            return None
        try:
            return parse_address(text)
        except ValueError as problem:
            self.note("kraft.admin.listener", f"{problem}, nor is it off")
            return None

    def cluster_id(self) -> str | None:
        text = self.values["kraft.cluster.id"]
        if not isinstance(text, str):
            return None
        try:
            uuid_from_text(text)
        except ValueError as problem:
            self.note("kraft.cluster.id", f"{problem}; `kraft storage random-uuid` makes one")
        return text


def _row_of(name: str) -> ConfigKey | None:
    """The row of a key, also of a single listener's: `listener.name.<listener>.[<mechanism>.]key`."""
    row = BROKER_KEYS.get(name)
    if row is not None or not name.startswith("listener.name."):
        return row
    match = re.fullmatch(r"listener\.name\.[^.]+\.(.+)", name)
    if match is None:
        return None
    return BROKER_KEYS.get(match[1]) or BROKER_KEYS.get(match[1].partition(".")[2])


def _range_of(row: ConfigKey) -> str:
    described = row.validator.describe()
    return f" (valid: {described})" if described else ""
