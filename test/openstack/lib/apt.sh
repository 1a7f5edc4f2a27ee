# Installs Debian packages without starting services and without questions. Sourced.

apt_missing() { # package...: prints those that are not installed
  local p
  for p; do
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null)" = "ii " ] || echo "$p"
  done
}

apt_install() { # package...
  local missing
  missing=$(apt_missing "$@" | xargs)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] || [ -n "${NPCTL_OPENSTACK_NO_APT:-}" ]; then
    echo "missing packages; as root: apt-get install --no-install-recommends $missing" >&2
    return 1
  fi
  local log started=$EPOCHSECONDS
  log=$(mktemp "${TMPDIR:-/tmp}/npctl-apt.XXXXXX")
  echo "installing: $missing"
  if ! (flock 9 && apt_run $missing) 9>/var/lock/npctl-apt >"$log" 2>&1; then # other scripts may install packages at the same time
    tail -30 "$log" >&2
    echo "apt-get could not install the packages above; the whole log is $log" >&2
    return 1
  fi
  rm -f "$log"
  echo "packages installed in $((EPOCHSECONDS - started)) s"
}

# It fetches missing package lists first, and outdated lists (with packages that
# the mirror no longer has) when the first attempt fails.
apt_run() {
  local policy=/usr/sbin/policy-rc.d made= rc=0
  if [ ! -e $policy ]; then # packages must not start their own services
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    made=1
  fi
  if apt_has_lists; then
    apt_once "$@" || { apt-get update && apt_once "$@"; } || rc=$?
  else
    { apt-get update && apt_once "$@"; } || rc=$?
  fi
  [ -z "$made" ] || rm -f $policy
  return $rc
}

apt_has_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# unsafe-io: a test machine needs no fsync after each of thousands of files
apt_once() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold "$@"
}
