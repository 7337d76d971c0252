"""Jars from Maven Central in a user cache.

A pom in this folder lists the jars; `jars("kafka")` returns the directory that holds all of them. The pom
`kafka_release` names no version of Kafka: `jars("kafka_release:4.0.2")` does. The directory's name contains the pom's
digest. So a changed pom gets a new directory, and a complete directory never changes. `KRAFT_CACHE` moves the cache
(default `~/.cache/kraft`).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

POMS = Path(__file__).parent


class JavaMissing(RuntimeError):
    """Raised when Java or mvn is not installed, or the jars cannot be fetched; the message says which."""


def cache_directory() -> Path:
    """The directory that keeps downloads between runs."""
    return Path(os.environ.get("KRAFT_CACHE", Path.home() / ".cache" / "kraft"))


def missing() -> str | None:
    """The programs that are missing to run Java, or None."""
    absent = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def jars(name: str) -> Path:
    """The directory with every jar of `jepsen/java/<name>/pom.xml`, fetched on first use. After a colon `name` has the
    version of Kafka, for a pom that leaves it open. Raises JavaMissing."""
    folder, _, version = name.partition(":")
    name = name.replace(":", "-")
    pom = POMS / folder / "pom.xml"
    target = cache_directory() / "jars" / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    if reason := missing():
        raise JavaMissing(reason)
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            fetch(pom, target, version)
    return target


def fetch(pom: Path, target: Path, version: str) -> None:
    """Download to a neighbouring directory and rename it, so that an existing directory is always complete."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    if version:
        command.append(f"-Dkafka.version={version}")
    done = subprocess.run(command, cwd=partial, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise JavaMissing(f"mvn could not fetch {pom}: {(done.stdout + done.stderr)[-2000:]}")
    partial.rename(target)


if __name__ == "__main__":
    for each in ("iceberg_rest", "kafka", "kafka_4_3", "local_tiered_storage", "spark_connector", "streams"):
        print(jars(each))
