#!/usr/bin/env bash
# Runs tests/pythons.sh under a Python that this machine does not have: in a root of Debian's SUITE, made by mmdebstrap,
# with a clone of what is committed. MINOR names the Python (14). Needs root, mmdebstrap and a package index.
set -euo pipefail
cd "$(dirname "$0")/.."
minor=${MINOR:-14} suite=${SUITE:-sid}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=ca-certificates,git,make,patch,gcc,g++,libc6-dev,tzdata,openssl,iproute2,e2fsprogs,default-jre-headless,maven
# A mirror may be a dated one.
mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
  --include="$packages,python3.$minor,python3.$minor-venv,python3.$minor-dev" "$suite" "$root"
for file in /etc/ssl/certs/ca-certificates.crt /etc/resolv.conf /etc/hosts /etc/pip.conf; do
  [ ! -e "$file" ] || cp "$file" "$root$file"
done
git clone -q . "$root/kraft"
ROOT="$root" MINOR="$minor" unshare --mount --pid --fork --kill-child bash -euo pipefail <<'INSIDE'
mount --make-rprivate /
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --rbind /sys "$ROOT/sys"
mount -t tmpfs tmpfs "$ROOT/tmp"
exec chroot "$ROOT" env HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin MINORS="$MINOR" \
  PYTHON3="python3.$MINOR" bash /kraft/tests/pythons.sh
INSIDE
