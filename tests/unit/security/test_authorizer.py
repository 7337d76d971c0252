"""The authorizer's decisions against a plain model: a list of entries that is walked from end to end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acl_rules import AclRules
from kraft.security.acls import (
    ANY,
    WILDCARD,
    AccessControlEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from kraft.security.authorizer import ANSWERS_MAX, Access, Authorizer

TOPIC = ResourceKind.TOPIC
WHO = ("User:alice", "User:bob", "User:*", "Group:alice")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.0/31", "10.0.0.2/31", "*")
NAMED_BY = {"10.0.0.1": {"10.0.0.1", "10.0.0.0/31", "*"}, "10.0.0.3": {"10.0.0.2/31", "*"}}
"""Which of `HOSTS` name an address."""
NAMES = ("a", "ab", "abc", "b", "*", "ba")
KINDS = (TOPIC, ResourceKind.GROUP)
OPERATIONS = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)

entries = st.builds(
    AccessControlEntry,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(WHO),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
questions = st.tuples(
    st.sampled_from(("User:alice", "User:bob", "User:carol")),
    st.sampled_from(("10.0.0.1", "10.0.0.3")),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(KINDS),
    st.sampled_from(("a", "ab", "abcd", "b", "c")),
)

IMPLIED: dict[int, set[int]] = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DELETE},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def names(entry: AccessControlEntry, kind: int, name: str) -> bool:
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        return name[: len(entry.resource_name)] == entry.resource_name
    return entry.resource_name in ("*", name)


def model(acls: list[AccessControlEntry], who: str, host: str, operation: int, kind: int, name: str) -> bool | None:
    """None: no entry names the resource."""
    about = [entry for entry in acls if names(entry, kind, name)]
    if not about:
        return None
    mine = [entry for entry in about if entry.principal in (who, "User:*") and entry.host in NAMED_BY[host]]
    exact = {Operation.ALL, operation}
    if any(entry.permission_type == Permission.DENY and entry.operation in exact for entry in mine):
        return False
    wide = exact | IMPLIED.get(operation, set())
    return any(entry.permission_type == Permission.ALLOW and entry.operation in wide for entry in mine)


@given(st.lists(entries, max_size=12), st.lists(entries, max_size=12), st.lists(questions, min_size=1, max_size=8))
def test_the_acl_index_decides_like_the_list_of_acls(
    stay: list[AccessControlEntry], go: list[AccessControlEntry], asked: list[tuple[str, str, int, int, str]]
) -> None:
    rules = AclRules().changed((), go).changed((), stay).changed(go, ())
    assert rules == AclRules().changed((), stay)
    for question in asked:
        decision = rules.decide(*question)
        expected = model(stay, *question)
        assert decision.has_rules == (expected is not None)
        assert decision.is_allowed == bool(expected)


@given(st.lists(entries, max_size=8), questions)
def test_a_permission_on_one_resource_is_included_in_the_check_for_any_resource(
    acls: list[AccessControlEntry], asked: tuple[str, str, int, int, str]
) -> None:
    who, host, _, kind, name = asked
    rules = AclRules().changed((), acls)
    if model(acls, who, host, Operation.WRITE, kind, name):
        assert rules.allows_some(who, host, Operation.WRITE, kind)


@given(st.lists(entries, max_size=12), entries)
def test_a_filter_for_one_acl_finds_only_that_acl(acls: list[AccessControlEntry], wanted: AccessControlEntry) -> None:
    taken = AclFilter(*wanted)
    assert [entry for entry in acls if taken.takes(entry)] == [entry for entry in acls if entry == wanted]


@given(st.lists(entries, max_size=12), st.sampled_from(("a", "abc", "zz")))
def test_a_match_filter_finds_every_pattern_for_a_resource(acls: list[AccessControlEntry], name: str) -> None:
    taken = AclFilter(TOPIC, name, PatternType.MATCH, None, None, ANY, ANY)
    assert [entry for entry in acls if taken.takes(entry)] == [
        entry for entry in acls if entry.resource_type == TOPIC and _matches_name(entry, name)
    ]


def _matches_name(entry: AccessControlEntry, name: str) -> bool:
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (WILDCARD, name)


class Audit:
    def __init__(self) -> None:
        self.denied: list[tuple[Any, ...]] = []

    def handle_denied(self, *what: Any) -> None:
        self.denied.append(what)

    def handle_changed(self, *what: Any) -> None:
        raise AssertionError


def context(principal: str = "User:alice") -> Any:
    return SimpleNamespace(principal=principal, peer=SimpleNamespace(host="10.0.0.1", access=None))


def allow(name: str, **fields: Any) -> AccessControlEntry:
    base = AccessControlEntry(TOPIC, name, PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
    return base._replace(**fields)


def make(*acls: AccessControlEntry, **settings: Any) -> Authorizer:
    made = Authorizer(frozenset(("User:root",)), listener=Audit(), **({"allows_without_rules": False} | settings))
    made.take_rules(AclRules().changed((), acls))
    return made


def test_cached_decisions_are_dropped_when_the_rules_change() -> None:
    made, asking = make(allow("t")), context()
    made.check(asking, Operation.READ, TOPIC, "t")
    made.take_rules(AclRules())
    with pytest.raises(ApiError) as refused:
        made.check(asking, Operation.READ, TOPIC, "t")
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert made.listener.denied == [("User:alice", "10.0.0.1", Operation.READ, TOPIC, "t")]  # type: ignore[attr-defined]


def test_cached_decisions_are_dropped_when_the_principal_of_a_connection_changes() -> None:
    made, asking = make(allow("t")), context()
    made.check(asking, Operation.READ, TOPIC, "t")
    asking.principal = "User:bob"
    with pytest.raises(ApiError):
        made.check(asking, Operation.READ, TOPIC, "t")


def test_super_users_are_allowed_everything_even_before_metadata_is_loaded() -> None:
    made = Authorizer(frozenset(("User:root",)), listener=Audit(), allows_without_rules=False)
    made.check(context("User:root"), Operation.ALTER, ResourceKind.CLUSTER, "kafka-cluster")
    with pytest.raises(ApiError) as refused:
        made.check(context(), Operation.ALTER, ResourceKind.CLUSTER, "kafka-cluster")
    assert refused.value.code == ErrorCode.NOT_CONTROLLER


def test_every_user_is_allowed_resources_without_acls_if_configured() -> None:
    made = make(allow("t", principal="User:bob"), allows_without_rules=True)
    made.check(context(), Operation.WRITE, TOPIC, "other")
    with pytest.raises(ApiError):
        made.check(context(), Operation.WRITE, TOPIC, "t")


def test_cached_decisions_are_bounded() -> None:
    access: Access = make().access_of(context())
    for number in range(ANSWERS_MAX + 10):
        assert not access.may(Operation.READ, TOPIC, str(number))
    assert len(access._answers) <= ANSWERS_MAX


@pytest.mark.parametrize(
    ("denied", "expected"),
    [
        ((), True),
        ((allow("ab", operation=Operation.WRITE, permission_type=Permission.DENY),), False),
        (
            (allow("a", pattern_type=PatternType.PREFIXED, operation=Operation.ALL, permission_type=Permission.DENY),),
            False,
        ),
        ((allow("*", operation=Operation.WRITE, permission_type=Permission.DENY),), False),
        ((allow("x", operation=Operation.WRITE, permission_type=Permission.DENY),), True),
        ((allow("ab", operation=Operation.WRITE, permission_type=Permission.DENY, host="10.9.9.9"),), True),
    ],
)
def test_an_allow_covered_by_a_deny_does_not_count(denied: tuple[AccessControlEntry, ...], expected: bool) -> None:
    access = make(allow("ab", operation=Operation.WRITE), *denied).access_of(context())
    assert access.may_on_some(Operation.WRITE, TOPIC) is expected


@pytest.mark.parametrize("written", ["2001:db8::7", "2001:db8:0:0:0:0:0:7", "2001:0DB8::0007"])
def test_an_ipv6_host_can_be_written_in_any_notation(written: str) -> None:
    entry = allow("t", operation=Operation.WRITE, permission_type=Permission.DENY, host=written)
    assert entry.is_about("2001:db8::7")
    assert not any(entry.is_about(other) for other in ("2001:db8::8", "10.0.0.7", "::1%eth0", "no:address"))
    rules = AclRules().changed((), (entry, allow("t", operation=Operation.WRITE)))
    assert not rules.decide("User:alice", "2001:db8::7", Operation.WRITE, TOPIC, "t").is_allowed
    assert rules.decide("User:alice", "2001:db8::8", Operation.WRITE, TOPIC, "t").is_allowed
