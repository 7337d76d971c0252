"""Every command block of the documents does what it says."""

from __future__ import annotations

import re
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import require_capability
from tests.docs.blocks import ROOT
from tests.docs.sessions import Session, missing_lines, names_of_sessions, programs_of, run_session, steps_of

COPY = 'cp -r "$TREE"/{kraft,api,docs,pyproject.toml,README.md,LICENSE} .\n'
"""The tree, as a reader has it."""
OWN_PACKAGES = {
    "PYTHONPATH": site.getsitepackages()[0],
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip turns what its options named NO_ are set to around.
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_COMPILE": "0",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
"""Packages come from this environment, since a test asks no registry."""
FIRST_NODE = Session("first-node", COPY, OWN_PACKAGES)
SPARK_RECIPES = Session("spark-recipes", COPY, OWN_PACKAGES)
THREE_NODES = Session("three-nodes")
OPERATIONS = Session(
    "operations",
    # Three healthy nodes whose topics have two replicas, so that a broker can go.
    prepare="""
cp -r "$TREE/config" .
kraft cluster start -n 3 --set default.replication.factor=2 --set min.insync.replicas=1 \
  --set offsets.topic.replication.factor=2 --set offsets.topic.num.partitions=3 \
  --set transaction.state.log.replication.factor=2 --set transaction.state.log.num.partitions=3 \
  --set share.coordinator.state.topic.replication.factor=2 --set share.coordinator.state.topic.min.isr=1 \
  --set share.coordinator.state.topic.num.partitions=3 >ready 2>cluster.log &
for attempt in $(seq 600); do if grep -q ready ready; then break; fi; sleep 0.1; done
kraft topics create orders --partitions 1
seq 1 100 | kraft produce orders
""",
)
UPKEEP = Session(
    "upkeep",
    # Three nodes under something like systemd, and a producer beside all that is done to them. In the end every record
    # that was acknowledged is read, once.
    prepare=r"""
cp -r "$TREE/config" .
systemctl() {
  local node=${2#kraft@}
  if [ -e "pid-$node" ]; then kill "$(cat "pid-$node")"; tail --pid="$(cat "pid-$node")" -f /dev/null; fi
  kraft-node --config "config/three-nodes-$node.properties" >"ready-$node" 2>>"log-$node" &
  echo $! >"pid-$node"
  for attempt in $(seq 600); do if grep -q ready "ready-$node"; then return; fi; sleep 0.1; done
  return 1
}
cluster=$(kraft storage random-uuid)
voters=$(for node in 1 2 3; do echo "$node@127.0.0.1:$((node - 1))9093:$(kraft storage random-uuid)"; done \
  | sed 's/:09093/:9093/' | paste -sd,)
for node in 1 2 3; do
  kraft storage format --cluster-id "$cluster" --config "config/three-nodes-$node.properties" \
    --initial-controllers "$voters"
done
for node in 1 2 3; do systemctl restart "kraft@$node" & starts="${starts:-} $!"; done
wait $starts
kraft topics create orders --partitions 1
kraft topics create watched --partitions 3
seq 1 100 | kraft produce orders
kraft consume orders -g readers --from-beginning -e >/dev/null
cat >producer.py <<'END'
import signal, confluent_kafka
ended, acked = [], []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
producer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:9092,127.0.0.1:19092,127.0.0.1:29092",
    "enable.idempotence": True, "linger.ms": 0})
number = 0
while not ended:
    producer.produce("watched", str(number), on_delivery=lambda error, _: acked.append(error))
    number += 1
    producer.poll(0.02)
assert producer.flush(60) == 0
assert acked == [None] * number, [str(error) for error in acked if error]
print(number)
END
python3 producer.py >acked &
producer=$!
finish() {
  local code=$?
  kill "$producer"
  wait "$producer" || code=1
  kraft consume watched --from-beginning -e >read
  if [ "$(wc -l <read)" != "$(cat acked)" ] || [ "$(sort -u read | wc -l)" != "$(cat acked)" ]; then
    echo "$(cat acked) acknowledged, $(wc -l <read) read"
    code=1
  fi
  exit $code
}
trap finish EXIT
""",
)
TLS = Session("tls")
SECURED = Session("secured")
TEST_KIT = Session("test-kit")
SESSIONS = {
    session.name: session
    for session in (FIRST_NODE, SPARK_RECIPES, THREE_NODES, OPERATIONS, UPKEEP, TLS, SECURED, TEST_KIT)
}


def test_every_session_named_by_a_documentation_block_is_run() -> None:
    assert names_of_sessions() == set(SESSIONS)


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_the_blocks_of_a_documented_session_run_as_pasted(name: str, tmp_path: Path) -> None:
    require_capability("netns")
    if name in (FIRST_NODE.name, SPARK_RECIPES.name):
        require_capability("java17")
    for program in programs_of(name):
        require_capability(program)
    assert sys.version_info >= (3, 11)
    run_session(SESSIONS[name], tmp_path)


def test_files_created_by_the_quick_start_are_ignored_by_git(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    saved = re.findall(r"Save this as `([^`]+)`", text)
    made = [*saved, *re.findall(r"^python3 -m venv (\S+)", text, re.MULTILINE), "kraft-data/x", "kraft-cluster/x"]
    assert {"hello.py", "read.py", "venv"} <= set(made)
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (tmp_path / "venv").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ignored = subprocess.run(["git", "check-ignore", *made], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ignored.stdout.splitlines() == made


def test_programs_of_a_session_are_those_that_its_blocks_run() -> None:
    assert programs_of(TLS.name) == ["curl", "openssl"]
    assert {"curl", "kcat"} <= set(programs_of(FIRST_NODE.name))


def test_blocks_that_continue_a_program_print_one_after_the_other() -> None:
    outputs = [step.output for step in steps_of(SPARK_RECIPES.name) if step.block.language == "python"]
    program = outputs[0]
    assert program.index("copied 5") < program.index("replayed 5")


def test_documented_output_must_appear_in_order() -> None:
    printed = "created topic a\n  1 of 3 done\nhello\n"
    assert missing_lines(("created topic a", "... of 3 ...", "hello"), printed) == []
    assert missing_lines(("hello", "created topic a"), printed) == ["created topic a"]
    assert missing_lines(("...", "bye"), printed) == ["bye"]
