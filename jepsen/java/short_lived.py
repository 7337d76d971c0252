"""Options for JVMs that live for seconds. Most of the cost of such a process is loading and compiling classes.

`options("kafka")` returns the options. An archive of loaded classes, if this machine has one, saves half of the
remaining cost. The JVM ignores an archive that does not fit. `python -m jepsen.java.short_lived` creates missing
archives, by running a program that loads the classes of most runs. An archive depends on the JVM and on the place of
the jars, and so does its name.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from jepsen.java.jars import JavaMissing, cache_directory, jars, missing

ROOT = Path(__file__).parents[2]
COMPILE_ONCE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def jars_of(program: str) -> Path:
    """The directory of the class path of `kafka` or `spark`."""
    if program == "kafka":
        return jars("kafka")
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "jars"


def archive(program: str) -> Path:
    """The path of the class archive of `kafka` or `spark`; it may not exist. It fits one JVM and one set of jars."""
    jvm = Path(shutil.which("java") or "java").resolve()
    place = jars_of(program)
    facts = [jvm, jvm.stat().st_mtime_ns, place, place.stat().st_mtime_ns]
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
    return cache_directory() / "classes" / f"{program}-{digest}.jsa"


def options(program: str) -> list[str]:
    """The options for a short-lived JVM of `kafka`, `spark` or another pom. Needs Java."""
    if program not in RECORDERS:
        return [*COMPILE_ONCE]
    kept = archive(program)
    return [*COMPILE_ONCE, *((f"-XX:SharedArchiveFile={kept}", "-Xlog:cds*=off") if kept.exists() else ())]


def recording(path: Path) -> list[str]:
    """The options of a JVM that writes its archive to `path` at its orderly end."""
    return [*COMPILE_ONCE, f"-XX:ArchiveClassesAtExit={path}", "-Xlog:cds*=off"]


def record_kafka(path: Path, directory: Path) -> None:
    """Start a node, use it, and stop it."""
    from jepsen.java.kafka import ApacheKafka, tool

    kafka = ApacheKafka(directory, options=recording(path)).start()
    at = ("--bootstrap-server", kafka.bootstrap)
    tool("topics", *at, "--create", "--topic", "t", "--partitions", "2")
    tool("console-producer", *at, "--topic", "t", stdin="1\n2\n")
    tool("console-consumer", *at, "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "2")
    kafka.stop()


def record_spark(path: Path, directory: Path) -> None:
    """Run a few queries in a separate process with its own JVM, and wait for the JVM's end."""
    command = [sys.executable, "-m", "jepsen.spark.recorded_queries", str(directory)]
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(recording(path))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited {done.returncode}\n{done.stdout}\n{done.stderr}")


RECORDERS: dict[str, Callable[[Path, Path], None]] = {"kafka": record_kafka, "spark": record_spark}


def make(program: str) -> str:
    """Make the archive unless it exists. Returns what was done."""
    kept = archive(program)
    if kept.exists():
        return f"{kept} is there"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kraft-classes-") as directory:
        made = Path(directory) / "made.jsa"
        RECORDERS[program](made, Path(directory) / "run")
        arrived = kept.with_suffix(f".{os.getpid()}")
        shutil.move(made, arrived)
        arrived.rename(kept)
    return f"{kept} is made"


if __name__ == "__main__":
    try:
        if (absent := missing()) is not None:
            raise JavaMissing(absent)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for told in pool.map(make, RECORDERS):
                print(told)
    except (JavaMissing, OSError, RuntimeError, subprocess.SubprocessError) as problem:
        # Tests are slower without, and say themselves what is wrong.
        print(f"no classes are archived: {problem}")
