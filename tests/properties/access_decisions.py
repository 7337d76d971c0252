"""One connection's access over a history of entries that come and go: every answer against a model that reads the list
of entries anew each time.

A seed is one history. The principal of the connection changes too, as by a second login.
`python -m tests.properties.access_decisions --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Final

from kraft.network.reply import Peer
from kraft.security.acl_rules import AclRules
from kraft.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.security.authorizer import Authorizer
from tests.properties.seeds import run_seeds

STEPS_A_SEED: Final = 30
QUESTIONS_A_STEP: Final = 20
SUPER_USER: Final = "User:root"
PRINCIPALS: Final = ("User:alice", "User:bob", SUPER_USER)
HOST: Final = "10.0.0.1"
HOSTS: Final = (HOST, "10.0.0.2", "10.0.0.0/31", "10.0.0.2/31", "*")
NAMING_HOST: Final = (HOST, "10.0.0.0/31", "*")
KINDS: Final = (ResourceKind.TOPIC, ResourceKind.GROUP)
PATTERNS: Final = ("a", "ab", "abc", "b", "*")
NAMES: Final = ("a", "ab", "abcd", "b", "c")
OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)
IMPLYING: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


class Deaf:
    """Nobody hears of denials and changes."""

    def handle_denied(self, principal: str, host: str, operation: int, kind: int, name: str) -> None:
        pass

    def handle_changed(self, principal: str, host: str, entry: AccessControlEntry, is_added: bool) -> None:
        pass


class Asking:
    """A request on the one connection."""

    def __init__(self, peer: Peer, principal: str) -> None:
        self.peer = peer
        self.principal = principal


def random_entry(draw: random.Random) -> AccessControlEntry:
    return AccessControlEntry(
        draw.choice(KINDS),
        draw.choice(PATTERNS),
        draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        draw.choice((*PRINCIPALS, "User:*")),
        draw.choice(HOSTS),
        draw.choice((Operation.ALL, *OPERATIONS)),
        draw.choice((Permission.ALLOW, Permission.DENY)),
    )


def is_about(entry: AccessControlEntry, kind: int, name: str) -> bool:
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in ("*", name)


def expected(acls: list[AccessControlEntry], open_: bool, principal: str, operation: int, kind: int, name: str) -> bool:
    """As KIP-11 and KIP-290 have it. `open_`: what no entry names is everybody's."""
    if principal == SUPER_USER:
        return True
    about = [entry for entry in acls if is_about(entry, kind, name)]
    if not about:
        return open_
    mine = [entry for entry in about if entry.principal in (principal, "User:*") and entry.host in NAMING_HOST]
    exact = (Operation.ALL, operation)
    if any(entry.permission_type == Permission.DENY and entry.operation in exact for entry in mine):
        return False
    wide = (*exact, *IMPLYING.get(operation, ()))
    return any(entry.permission_type == Permission.ALLOW and entry.operation in wide for entry in mine)


def disagreement(draw: random.Random) -> str:
    """The first answer that is not the model's; empty where there is none."""
    open_ = draw.random() < 0.5
    authorizer = Authorizer(frozenset((SUPER_USER,)), allows_without_rules=open_, listener=Deaf())
    peer = Peer(HOST, "CLIENTS", ("10.0.0.9", 9092))
    principal, rules, acls = PRINCIPALS[0], AclRules(), list[AccessControlEntry]()
    authorizer.take_rules(rules)
    for _ in range(STEPS_A_SEED):
        if draw.random() < 0.5:
            stays = [draw.random() >= 0.2 for _ in acls]  # Equal entries come and go one by one.
            gone = [entry for entry, is_kept in zip(acls, stays, strict=True) if not is_kept]
            acls = [entry for entry, is_kept in zip(acls, stays, strict=True) if is_kept]
            new = [random_entry(draw) for _ in range(draw.randrange(3))]
            rules = rules.changed(gone, new)
            acls += new
            authorizer.take_rules(rules)
        if draw.random() < 0.5:
            principal = draw.choice(PRINCIPALS)
        access = authorizer.access_of(Asking(peer, principal))
        for _ in range(QUESTIONS_A_STEP):
            asked: tuple[Any, ...] = draw.choice(OPERATIONS), draw.choice(KINDS), draw.choice(NAMES)
            wanted = expected(acls, open_, principal, *asked)
            if access.allows(*asked) != wanted:
                return f"{principal} {asked}: should be {wanted} by {acls}, open {open_}"
    return ""


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    violation = disagreement(random.Random(seed))
    return f"access: {violation}" if violation else ""


if __name__ == "__main__":
    sys.exit(run_seeds("access_decisions", __doc__, violation_of))
