"""Logins where nobody has to log in (both listeners of the target are PLAINTEXT), and changes of SCRAM credentials."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, case

HANDSHAKE, AUTHENTICATE, ALTER = "SaslHandshake", "SaslAuthenticate", "AlterUserScramCredentials"
SHA_256, SHA_512 = 1, 2
SALTED = bytes(range(32))


def put(mechanism: int = SHA_256, name: str = "$group", **more: Any) -> dict[str, Any]:
    given = {"iterations": 4096, "salt": b"salt" * 4, "salted_password": SALTED, **more}
    return {"name": name, "mechanism": mechanism, **given}


def drop(mechanism: int = SHA_256, name: str = "$group") -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(*upsertions: dict[str, Any], deletions: tuple[dict[str, Any], ...] = (), **more: Any) -> Ask:
    return Ask({"upsertions": list(upsertions), "deletions": list(deletions)}, **more)


CASES = (
    case("sasl-handshake", HANDSHAKE, Ask({"mechanism": "PLAIN"})),
    case("sasl-handshake-at-controller", HANDSHAKE, Ask({"mechanism": "SCRAM-SHA-256"}, listener=CONTROLLER)),
    case("sasl-authenticate", AUTHENTICATE, Ask({"auth_bytes": b"\0alice\0secret"})),
    case("sasl-authenticate-at-controller", AUTHENTICATE, Ask({"auth_bytes": b""}, listener=CONTROLLER)),
    case("scram-nothing", ALTER, alter()),
    case("scram-put-and-drop", ALTER, alter(put()), alter(deletions=(drop(),)), alter(deletions=(drop(),))),
    case("scram-both-mechanisms", ALTER, alter(put(), put(SHA_512, salted_password=bytes(64)))),
    case("scram-put-and-drop-at-once", ALTER, alter(put()), alter(put(SHA_512), deletions=(drop(),))),
    case("scram-twice", ALTER, alter(put(), put())),
    case("scram-put-and-drop-the-same", ALTER, alter(put(), deletions=(drop(),))),
    case("scram-drop-unknown", ALTER, alter(deletions=(drop(),))),
    case("scram-empty-name", ALTER, alter(put(name="")), alter(deletions=(drop(name=""),))),
    case("scram-unknown-mechanism", ALTER, alter(put(0)), alter(put(7)), alter(deletions=(drop(7),))),
    case("scram-iterations", ALTER, alter(put(iterations=4095)), alter(put(iterations=16385))),
    case("scram-empty-salt", ALTER, alter(put(salt=b""))),
    case("scram-good-and-bad", ALTER, alter(put(), put(SHA_512, iterations=1)), alter(deletions=(drop(),))),
    case(
        "scram-at-controller", ALTER, alter(put(), listener=CONTROLLER), alter(deletions=(drop(),), listener=CONTROLLER)
    ),
)
