"""What Apache Kafka's SslPrincipalMapper makes of rules and names of certificates.

`python -m tests.vectors.principals` asks it (Kafka's jars, Java 17) and writes names.json: rows of rules, name, and
the principal's name, or null where Kafka throws.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Final

from jepsen.java.kafka import java

HERE: Final = Path(__file__).parent
RECORDED: Final = HERE / "names.json"
SEED: Final = 7
RANDOM_PAIRS: Final = 900

NAMES: Final = (
    "CN=kafka1,OU=SRE,O=ACME,L=Berlin,ST=Berlin,C=DE",
    "CN=Müller Öl,O=Straße 1,C=DE",
    "CN=ИВАН,O=ООО,C=RU",
    "CN=\u0663\u0664,O=digits",
    "CN=a\u00a0b\u2003c,O=spaces",
    "CN=Kelvin \u212a,O=\u017ft",
    "CN=kafka-1.example.org",
    "CN=x\u0085y,O=line",
    "CN=x\\,y,O=comma",
    "CN=K1",
    "cn=k1",
    "UID=svc_1+CN=svc",
    "",
)
RULES: Final = (
    "DEFAULT",
    "",
    ",,DEFAULT",
    "RULE:.*/x/",
    "RULE:^.*$/x/",
    r"RULE:^CN=(.*?),.*$/$1/L",
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/U",
    r"RULE:^CN=(?<name>[^,]+).*$/${name}/",
    r"RULE:^CN=(?<a>[^,]+),O=(?<b>[^,]+).*$/${b}-${a}/L",
    r"RULE:^CN=(\p{L}+).*$/$1/",
    r"RULE:^CN=(\p{Lu}+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\p{Lower}+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\p{IsAlphabetic}+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\p{IsLatin}+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\p{javaLetterOrDigit}+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\p{Punct}|\w)+.*$/$1/,DEFAULT",
    r"RULE:^CN=(\w+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\W+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\d+).*$/$1/,DEFAULT",
    r"RULE:^CN=(\S+)\s(\S+).*$/$1_$2/,DEFAULT",
    r"RULE:^CN=(\S+)\h(.*)$/$1_$2/,DEFAULT",
    r"RULE:(?i)^cn=(.*?)(,.*)?$/$1/U",
    r"RULE:(?iu)^CN=(иван).*$/$1/,DEFAULT",
    r"RULE:(?i)^CN=(иван).*$/$1/,DEFAULT",
    r"RULE:^CN=(?i)kelvin (k).*$/$1/,DEFAULT",
    r"RULE:^(?i)cn(?-i)=(k1|K2).*|cn=(.).*$/$1$2/,DEFAULT",
    r"RULE:^(?i:cn)=(.*)$/$1/,DEFAULT",
    r"RULE:^CN=(.)\1.*$/$1/,DEFAULT",
    r"RULE:^CN=([\p{L}&&[^a-m]]+).*$/$1/,DEFAULT",
    r"RULE:^CN=([a-z[0-9]]+).*$/$1/,DEFAULT",
    r"RULE:^CN=([^\p{L}]+).*$/$1/,DEFAULT",
    r"RULE:\QCN=kafka-1.\E(.*)/$1/,DEFAULT",
    r"RULE:CN=x(.)y.*/$1/,DEFAULT",
    r"RULE:(?s)CN=x(.)y.*/dot/,DEFAULT",
    r"RULE:CN=x(\R)y.*/end/,DEFAULT",
    r"RULE:^CN=(.*?)\\,(.*?),.*$/$1\/$2/,DEFAULT",
    r"RULE:^CN=(.*+)$/$1/,DEFAULT",
    r"RULE:^(?>CN=.*)x$/$0/,DEFAULT",
    r"RULE:^CN=(.*?)(?=,)(.*)$/$1$9/,DEFAULT",
    r"RULE:^CN=(.*)$/$12/,DEFAULT",
    r"RULE:^CN=(.*)$/$01/,DEFAULT",
    r"RULE:^CN=(.*)$/\$1/,DEFAULT",
    r"RULE:(CN)|(=)|./[$1$2]/",
    r"RULE:a|.*/y/",
    r"RULE:[^=,]+/v/,RULE:([^=]+)=([^,]*).*/$2=$1/",
    r"RULE:^CN=(.{2,4}).*$/$1/",
    r"RULE:^CN=(\x{4b}\u0031)$/$1/,DEFAULT",
    r"RULE:^CN=(\p{Nd}+),(.*)$/$1/,DEFAULT",
    r"RULE:^CN=(\p{IsDigit}+),(.*)$/$1/,DEFAULT",
    r"RULE:^CN=(.*?)\b(,|$).*/$1/,DEFAULT",
)
_PIECES: Final = (
    *("CN", "cn", "=", ",", "O", "(.*)", "(.*?)", "(.+)", "[^,]+", "(?<n>[^,=]*)", "(?:a|K)?", "(?i)", "(?-i)", "(?u)"),
    *(r"\w", r"\w+", r"\d", r"\s?", r"\S+", r"\p{L}*", r"\p{Lu}", r"\P{L}", r"\p{Alpha}", r"\h?", r"[a-z&&[^k]]*", "."),
    *(
        "|",
        "^",
        "$",
        r"\Z",
        r"\z",
        "x*",
        "x+?",
        "[kK1-9-]",
        r"[\w=]",
        r"\x3d",
        r"\Q=\E",
        ".*",
        ".*",
        r"(.)\1?",
        "{1,2}",
    ),
)
_REPLACED: Final = ("$0", "$1", "$2", "${n}", "x", "-", r"\$", "$9", "$11", "é")


def pairs() -> list[tuple[str, str]]:
    """Rules and names: every rule of the table with every name, and random rules."""
    chance = random.Random(SEED)
    found = [(rules, name) for rules in RULES for name in NAMES]
    for _ in range(RANDOM_PAIRS):
        pattern = "".join(chance.choices(_PIECES, k=chance.randint(1, 5)))
        if chance.random() < 0.5:
            pattern += ".*"
        replacement = "".join(chance.choices(_REPLACED, k=chance.randint(0, 3)))
        found.append((f"RULE:{pattern}/{replacement}/{chance.choice(['', 'L', 'U'])}", chance.choice(NAMES)))
    return found


def ask_kafka(asked: list[tuple[str, str]]) -> list[str | None]:
    """What Kafka answers to each pair."""
    lines = "".join(f"{rules.encode().hex()}\t{name.encode().hex()}\n" for rules, name in asked)
    command = [*java("-Xmx256M"), str(HERE / "PrincipalNames.java")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(asked), done.stderr
    return [bytes.fromhex(answer[1:]).decode() if answer.startswith("=") else None for answer in answers]


def record() -> None:
    asked = pairs()
    rows = [[rules, name, answer] for (rules, name), answer in zip(asked, ask_kafka(asked), strict=True)]
    text = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    RECORDED.write_text(f"[\n{text}\n]\n")
