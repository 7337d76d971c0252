#!/usr/bin/env bash
# Installs the Debian packages that a target needs and the machine lacks. `system-packages.sh demo` stops at what
# the demo needs; without an argument it is everything that the tests use. Nothing happens when all is there.
# Without root, or on a machine without apt-get, it says what to type and leaves with 0: the tests name what they skip.
set -euo pipefail

demo=(python3:python3 java:openjdk-17-jre-headless)
tests=(
  javac:openjdk-17-jdk-headless mvn:maven gcc:gcc kcat:kcat curl:curl openssl:openssl git:git patch:patch tc:iproute2
  ip:iproute2 nft:nftables unshare:util-linux losetup:mount mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs
  chromium:chromium gdb:gdb systemd-analyze:systemd
)
needs=("${demo[@]}")
[ "${1:-tests}" = demo ] || needs+=("${tests[@]}")

missing=()
for need in "${needs[@]}"; do
  PATH="$PATH:/sbin:/usr/sbin" command -v "${need%%:*}" >/dev/null 2>&1 || missing+=("${need#*:}")
done
# Debian splits the module that makes virtual environments from Python itself.
python="${PYTHON3:-python3}"
if ! command -v "$python" >/dev/null || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  missing+=(python3-venv)
fi
# What gcc is for: a library that answers for clocks and syncs inside a node.
[ "${1:-tests}" = demo ] || [ -e /usr/include/dlfcn.h ] || missing+=(libc6-dev)
# And the headers of Python, for modules that are compiled.
headers='import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
[ "${1:-tests}" = demo ] || "$python" -c "$headers" 2>/dev/null || missing+=(python3-dev)
# Its package would start a server on this machine: only the programs are taken from it.
programs=()
[ "${1:-tests}" = demo ] || command -v prometheus >/dev/null || programs+=(prometheus)
# Formats and checks the console's JavaScript. `make lint` goes on without it.
if [ "${1:-tests}" != demo ] && [ "$(id -u)" = 0 ] && [ "$(biome --version 2>/dev/null)" != "Version: $BIOME" ] && command -v npm >/dev/null; then
  npm install --global --silent --no-audit --no-fund "@biomejs/biome@$BIOME" || echo "biome could not be installed"
fi
[ $((${#missing[@]} + ${#programs[@]})) -eq 0 ] && exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u | sed '/^$/d')

echo "system packages missing: ${missing[*]} ${programs[*]}"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "  to have them: sudo apt-get install ${missing[*]} ${programs[*]}   (or the like of your distribution)"
  exit 0
fi
echo "  installing them with apt-get"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
[ ${#missing[@]} -eq 0 ] || apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for program in "${programs[@]}"; do
  folder=$(mktemp -d)
  # apt-get gives up root for a download, and then may not write to a folder of root's.
  (cd "$folder" && apt-get -qq -o APT::Sandbox::User=root download "$program" && dpkg-deb -x ./*.deb .)
  install -m 755 "$folder"/usr/bin/prom* /usr/local/bin/
  rm -rf "$folder"
done
