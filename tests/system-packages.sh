#!/usr/bin/env bash
# Debian packages that some tests use. Installs what is missing, as root; says what to do otherwise. Nothing happens when all is there.
set -euo pipefail
declare -A needs=([mkfs.ext4]=e2fsprogs [losetup]=mount [ip]=iproute2 [nft]=nftables [kcat]=kcat [unzip]=unzip [tc]=iproute2 [mkfs.xfs]=xfsprogs [unshare]=util-linux [gcc]=gcc)
missing=()
for command in "${!needs[@]}"; do
  command -v "$command" >/dev/null 2>&1 || [ -x "/sbin/$command" ] || [ -x "/usr/sbin/$command" ] || missing+=("${needs[$command]}")
done
[ -e /usr/include/dlfcn.h ] || missing+=(libc6-dev)  # What gcc is for: jepsen's library for clocks and syncs.
[ ${#missing[@]} -eq 0 ] && exit 0
echo "system packages missing: ${missing[*]}"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "install them with your package manager (Debian: apt-get install ${missing[*]}); tests that need them say so"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
