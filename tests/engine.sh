#!/usr/bin/env bash
# Runs the image `kraft` of tests/image.sh under podman: the three nodes of compose.yml, and docs/examples/testcontainers.
# Needs root, podman, crun, netavark, iptables, Maven, a package index, and `kraft` in .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
export STORAGE_DRIVER=vfs CONTAINERS_CONF="$work/containers.conf" DOCKER_HOST="unix://$work/engine.sock"
# Testcontainers' own container for cleaning up comes from a registry. The host's ports are reached as they are.
export TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
cat >"$CONTAINERS_CONF" <<'CONF'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
cgroups = "disabled"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
cp docs/examples/testcontainers/* "$work"
# This machine may not allow more open files or processes to a container.
sed 's/nofile: .*/nofile: 4096\n    nproc: 4096/' config/deployment/compose.yml >"$work/compose.yml"
kraft=$PWD/.venv/bin/kraft
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check testcontainers confluent-kafka podman-compose pytest

# crun wants cgroups of one version: a private mount of version 2.
WORK="$work" KRAFT="$kraft" unshare --mount bash -euo pipefail <<'INSIDE'
mount --make-rprivate /
awk '$2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/mounts | sort -r | xargs -r -n1 umount
mount -t cgroup2 none /sys/fs/cgroup
podman system service --time 0 "$DOCKER_HOST" 2>"$WORK/engine.log" &
trap 'kill $!; podman rm --all --force >/dev/null; rm -rf "$WORK"' EXIT
until [ -S "${DOCKER_HOST#unix://}" ]; do sleep 0.1; done
cd "$WORK"
export PATH=$WORK/venv/bin:$PATH
podman-compose -f compose.yml up -d --no-build >/dev/null 2>&1
for _ in $(seq 60); do
  "$KRAFT" cluster health -b 127.0.0.1:19092 >health 2>&1 && break
  sleep 1
done
cat health
"$KRAFT" topics create greetings -b 127.0.0.1:19092 >/dev/null
echo hello | "$KRAFT" produce greetings -b 127.0.0.1:29092 >/dev/null
podman kill "$(podman ps --quiet --filter name=kraft-2)" >/dev/null
[ "$("$KRAFT" consume greetings -b 127.0.0.1:39092 --from-beginning --exit)" = hello ]
podman-compose -f compose.yml down -v >/dev/null 2>&1
echo "compose: a record is read after a node was killed"
venv/bin/python -m pytest -q -p no:cacheprovider test_orders.py
mvn -q -B -Dstyle.color=never test
cat target/surefire-reports/*.txt
INSIDE
