"""The receiver of clients' metrics with which Apache Kafka serves GetTelemetrySubscriptions and PushTelemetry."""

import os
import subprocess
from pathlib import Path

from jepsen.java.jars import JavaMissing, jars

SOURCE = Path(__file__).parent / "Receiver.java"
SETTINGS = {"metric.reporters": "Receiver"}
"""Settings that a node of Apache Kafka needs for the receiver, besides its classes."""


def compiled(directory: Path) -> Path:
    """Compile the receiver against Kafka's jars. Returns `directory`, which has the classes. Raises JavaMissing."""
    directory.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(str(each) for each in sorted(jars("kafka").glob("kafka-clients-*.jar")))
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", path]
    done = subprocess.run([*compiler, "-d", str(directory), str(SOURCE)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise JavaMissing(f"{SOURCE} does not compile: {done.stdout + done.stderr}")
    return directory
