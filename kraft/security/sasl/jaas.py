"""`sasl.jaas.config`: one login module with its options, in the form of Java's JAAS files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|([^\s=;"\']+)|([=;]))', re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
JAAS_CHARACTERS_MAX: Final = 1 << 20


class JaasLogin(NamedTuple):
    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasLogin({self.module}, options hidden)"

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name, from `user_<name>="<password>"`."""
        return {key.removeprefix("user_"): value for key, value in self.options.items() if key.startswith("user_")}

    @property
    def by_token(self) -> bool:
        """Whether the name is a delegation token's id, from `tokenauth="true"`."""
        return self.options.get("tokenauth", "").lower() == "true"


def parse_jaas(text: str) -> JaasLogin:
    """Parse the text. Raises ValueError with a message that quotes nothing of the text, which holds passwords."""
    if len(text) > JAAS_CHARACTERS_MAX:
        raise ValueError(f"it has more than {JAAS_CHARACTERS_MAX} characters")
    tokens = _tokens(text.strip())
    if len(tokens) < 3 or tokens[0] in ("=", ";") or tokens[1].lower() not in _FLAGS:
        raise ValueError('it is not of the form <module> required key="value" ... ;')
    if tokens[-1] != ";" or ";" in tokens[:-1]:
        raise ValueError("it has to hold one login module and end with a semicolon")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for start in range(0, len(rest), 3):
        part = rest[start : start + 3]
        if len(part) != 3 or part[1] != "=" or part[0] == "=":
            raise ValueError(f"option {start // 3 + 1} is not of the form key=value")
        if part[0] in options:
            raise ValueError(f"option {part[0]} stands there twice")
        options[part[0]] = _plain(part[2])
    return JaasLogin(tokens[0], options)


def _tokens(text: str) -> list[str]:
    """Words, `=` and `;`. A quoted word is marked by a leading NUL, so that a quoted `;` is not a separator."""
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"it cannot be read from character {position + 1} on: is a quotation mark missing?")
        position = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        tokens.append(match[3] or match[4] if quoted is None else "\0" + _unescape(quoted))
    return tokens


def _plain(token: str) -> str:
    return token.removeprefix("\0")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)
