#!/usr/bin/env bash
# `make fresh-machine`: runs `make demo` and `make test` on Debian machines on which nothing was installed before: as
# root, where the missing packages get installed, and as an ordinary user, who is told what is missing and whose tests
# pass without it.
# A machine is a folder that debootstrap makes below $FRESH_FOLDER (/var/tmp unless set). It is removed in the end. It
# holds this tree without what git ignores, and without the repository. Package sources, certificates, proxies and
# settings of pip are copied from the machine that this script runs on.
# WHO=root or WHO=user runs one of the two. PYTEST_ADDOPTS and WORKERS are passed on (PYTEST_ADDOPTS=--part=1/20 runs a
# share of the tests). Needs root, debootstrap and 8 GB.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  echo "make fresh-machine needs root and debootstrap (apt-get install debootstrap)" >&2
  exit 2
fi
who=${WHO:-both}
case $who in
  both | root | user) ;;
  *)
    echo "WHO is root or user, not '$who'" >&2
    exit 2
    ;;
esac
if [ "${FRESH_MACHINE_UNSHARED:-}" != 1 ]; then
  # In namespaces of its own, so that mounts and processes of the machines end with this script.
  FRESH_MACHINE_UNSHARED=1 exec unshare --mount --pid --fork --kill-child -- bash "$0" "$@"
fi

work=$(mktemp --directory "${FRESH_FOLDER:-/var/tmp}/kraft-fresh-machine.XXXXXX")
base=$work/base
# Mounts are removed first: what is below them belongs to this machine.
trap 'awk -v at="$work/" "index(\$2, at) == 1 {print \$2}" /proc/mounts | sort -r | xargs -r -n1 umount -l; rm -rf --one-file-system "$work"' EXIT
# shellcheck source=/dev/null
. /etc/os-release
# shellcheck disable=SC2016 # $(SITE) is apt-get's.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" | head -1)

settings() { # Prints the variables of this machine that say where and how to fetch, as a shell script.
  env -0 | grep -zE '^(PIP_[A-Z_]+|[A-Za-z_]+_proxy|[A-Z_]*(CA_BUNDLE|SSL_CERT_FILE)|PYTEST_ADDOPTS|WORKERS)=' | tr '\0' '\n' | sed "s/'/'\\\\''/g; s/=\(.*\)/='\1'/; s/^/export /" || true
}

begin() { # NAME: makes a machine from the base, with the tree in /srv/kraft.
  local root=$work/$1 member
  cp -a --reflink=auto "$base" "$root"
  mount --bind "$root" "$root"
  mount --rbind --make-rslave /dev "$root/dev"
  mount --rbind --make-rslave /sys "$root/sys"
  mount -t proc proc "$root/proc"
  mkdir -p "$root/srv/kraft"
  (cd "$tree" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' member; do
    [ ! -e "$member" ] || printf '%s\0' "$member"
  done | tar --null --files-from=- --create) | tar -C "$root/srv/kraft" --extract
  settings >"$root/etc/profile.d/fresh-machine.sh"
}

type_in() { # NAME USER COMMAND: runs a command in the tree as that user, with the environment of a new login.
  echo "fresh machine, $2: $3"
  chroot "$work/$1" /usr/bin/env -i HOME="$([ "$2" = root ] && echo /root || echo "/home/$2")" TERM=dumb \
    su --login "$2" --command "cd /srv/kraft && . /etc/profile.d/fresh-machine.sh && $3"
}

echo "fresh machine: Debian $VERSION_CODENAME into $base"
debootstrap --variant=minbase --include=ca-certificates "$VERSION_CODENAME" "$base" "$mirror" >"$work/debootstrap.log" 2>&1 ||
  { tail -20 "$work/debootstrap.log" >&2; exit 1; }
cp --dereference /etc/resolv.conf "$base/etc/resolv.conf"
cp -a /etc/apt/sources.list* /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d "$base/etc/apt/"
cp -a /usr/share/keyrings/. "$base/usr/share/keyrings/"
rm -f "$base"/etc/apt/sources.list.d/{docker,pgdg,nodesource}* # Debian's own packages are enough.
mkdir -p "$base/etc/ssl/certs" && cp -aL /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/"
cp -a /usr/local/share/ca-certificates/. "$base/usr/local/share/ca-certificates/" 2>/dev/null || true
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$base/etc/pip.conf"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$base/etc/hosts"
mount -t proc proc "$base/proc"
chroot "$base" sh -c 'update-ca-certificates >/dev/null 2>&1; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make >/dev/null'
umount "$base/proc"

if [ "$who" != user ]; then
  begin of-root
  type_in of-root root "make demo"
  type_in of-root root "make test"
  echo "fresh machine, root: make demo and make test are green"
  [ "$who" = root ] || { umount -l "$work/of-root"; rm -rf --one-file-system "$work/of-root"; }
fi
if [ "$who" != root ]; then
  begin of-user
  # An ordinary user cannot install what the README asks for before anything else, nor Java, which the demo needs.
  chroot "$work/of-user" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv openjdk-17-jre-headless >/dev/null
    useradd --create-home --shell /bin/bash someone && chown -R someone /srv/kraft'
  type_in of-user someone "make demo"
  type_in of-user someone "make test" | tee "$work/of-user.log"
  grep -q "system packages missing: .*gcc.*maven" "$work/of-user.log" || { echo "make test did not name what is missing" >&2; exit 1; }
  echo "fresh machine, user: make demo and make test are green, and what is missing was named"
fi
