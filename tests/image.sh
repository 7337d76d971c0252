#!/usr/bin/env bash
# Builds the container image and runs it without an engine: read-only, as its own user, in a network of its own. Needs
# root, buildah and iproute2. PYTHON names the image to build on (docker.io/library/python:3.13, and the same name with
# -slim); where that cannot be pulled, the like is made of Debian's packages (mmdebstrap).
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-docker.io/library/python:3.13}"
megabytes_max=150
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

base() { # NAME, PACKAGES: an image of Debian's packages
  local container
  mmdebstrap --quiet --variant=minbase --include="ca-certificates,python3,$2" bookworm "$work/base.tar"
  container=$(buildah from scratch)
  buildah add -q "$container" "$work/base.tar" / >/dev/null
  buildah run "$container" ln -s /usr/bin/python3 /usr/local/bin/python
  # What this machine trusts, for a build behind a proxy.
  buildah copy -q "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt >/dev/null
  [ ! -e /etc/pip.conf ] || buildah copy -q "$container" /etc/pip.conf /etc/pip.conf >/dev/null
  buildah commit -q --rm "$container" "$1" >/dev/null
  rm "$work/base.tar"
}

if ! buildah inspect --type image "$python" >/dev/null 2>&1 && ! buildah pull -q "$python" 2>/dev/null; then
  python=localhost/kraft-base
  echo "image: built on Debian's packages, as $python"
  base "$python" python3-venv,python3-dev,gcc,libc6-dev
  base "$python-slim" tzdata
fi
buildah bud -q --format docker --build-arg PYTHON="$python" -f config/deployment/Containerfile -t kraft . >/dev/null
buildah push -q kraft "docker-archive:$work/image.tar:kraft"
megabytes=$(gzip -c "$work/image.tar" | wc -c | awk '{ print int($1 / 1000000) }')
echo "image: $megabytes MB compressed"
[ "$megabytes" -le $megabytes_max ] || { echo "image: more than $megabytes_max MB"; exit 1; }

container=$(buildah from kraft)
root=$(buildah mount "$container")
trap 'buildah rm "$container" >/dev/null; rm -rf "$work"' EXIT
health=$(buildah inspect --type image kraft | python3 -c '
import json, shlex, sys
config = json.load(sys.stdin)["Docker"]["config"]
assert config["User"] == "10001" and config["Entrypoint"] == ["kraft-node"] and config["Cmd"] == ["--format"], config
print(shlex.join(config["Healthcheck"]["Test"][1:]))')

ROOT="$root" HEALTH="$health" unshare --mount --net --fork --pid --kill-child bash -euo pipefail <<'INSIDE'
ip link set lo up
mount --bind "$ROOT" "$ROOT"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t tmpfs -o mode=750,uid=10001,gid=10001 tmpfs "$ROOT/var/lib/kraft"
mount -t devtmpfs none "$ROOT/dev" 2>/dev/null || mount --rbind /dev "$ROOT/dev"
mount -o remount,ro,bind "$ROOT"
inside=(chroot --userspec=10001:10001 "$ROOT" env -i HOME=/var/lib/kraft PATH=/opt/kraft/bin:/usr/local/bin:/usr/bin:/bin)
until_healthy() {
  for _ in $(seq 60); do
    "${inside[@]}" sh -c "$HEALTH" 2>/dev/null && return
    sleep 1
  done
  echo "image: the healthcheck does not pass"
  exit 1
}
start() {
  "${inside[@]}" sh -c 'cd /var/lib/kraft && exec kraft-node --format' >"$ROOT/tmp/log" 2>&1 &
  node=$!
  until_healthy
}
! "${inside[@]}" touch /opt/kraft/x 2>/dev/null || { echo "image: its root can be written"; exit 1; }
start
"${inside[@]}" kraft --version
"${inside[@]}" kraft --version | grep -q "machine code" || { echo "image: records are read by the interpreter"; exit 1; }
"${inside[@]}" python -c "import cryptography, jwt, obstore"
"${inside[@]}" kraft topics create greetings >/dev/null
echo hello | "${inside[@]}" kraft produce greetings >/dev/null
kill -TERM $node
wait $node
start
[ "$("${inside[@]}" kraft consume greetings --from-beginning --exit)" = hello ] || { echo "image: the record is gone"; exit 1; }
kill -TERM $node
wait $node
echo "image: a read-only node serves, stops, and has its records again"
INSIDE
