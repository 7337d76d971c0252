"""Get the schemas of one subject from a schema registry (Confluent's REST API). This is done on the driver when a read
is set up. Workers never contact the registry."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import urlopen

from kraft.spark.decode.avro_schema import AvroSchemas

VERSIONS_MAX = 200
"""The number of newest versions to load; records of older versions are bad."""
ANSWER_BYTES_MAX = 16 << 20
TIMEOUT_S = 10
SUBJECTS = "/subjects/"


def is_registry(text: str) -> bool:
    return text.strip().lower().startswith(("http://", "https://"))


def schemas_of(url: str, default_subject: str | None) -> AvroSchemas:
    """Return all versions of the subject. The latest one defines the rows. `url` is the registry's base URL, optionally
    with `/subjects/<subject>`. Raises ValueError."""
    parts = urlsplit(url.strip())
    if "@" in parts.netloc:
        raise ValueError("a registry's URL must not contain a password: Spark shows options in its plans")
    base, found, named = url.strip().partition(SUBJECTS)
    subject = unquote(named.strip("/")) if found else default_subject
    if not subject:
        raise ValueError(
            f"the registry's URL must name a subject ({base.rstrip('/')}{SUBJECTS}<subject>), unless one topic is "
            "subscribed to"
        )
    if "/" in named.strip("/"):
        raise ValueError(f"the registry's URL ends with {SUBJECTS}<subject>: leave out the version")
    place = f"{base.rstrip('/')}{SUBJECTS}{quote(subject, safe='')}/versions"
    versions = asked(place)
    if not isinstance(versions, list) or not versions:
        raise ValueError(f"the schema registry returned no versions at {place}")
    writers: dict[int, str] = {}
    latest = ""
    for version in sorted(versions)[-VERSIONS_MAX:]:
        answer = asked(f"{place}/{version}")
        if answer.get("schemaType", "AVRO") != "AVRO" or answer.get("references"):
            raise ValueError(
                f"version {version} of the subject {subject} is not Avro alone, or refers to other schemas"
            )
        latest = writers[answer["id"]] = answer["schema"]
    return AvroSchemas(reader=latest, writers=writers, subject=subject)


def asked(url: str) -> Any:
    """Return the registry's response. Raises ValueError."""
    try:
        with urlopen(url, timeout=TIMEOUT_S) as answer:
            text = answer.read(ANSWER_BYTES_MAX + 1)
        if len(text) > ANSWER_BYTES_MAX:
            raise ValueError(f"the response has more than {ANSWER_BYTES_MAX} bytes")
        return json.loads(text)
    except HTTPError as problem:
        problem.close()
        raise ValueError(f"the schema registry answered {problem.code} {problem.reason} for {url}") from None
    except (URLError, OSError, ValueError) as problem:
        raise ValueError(f"{url} could not be fetched from the schema registry: {problem}") from None
