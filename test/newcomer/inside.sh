# The part of run.sh in the namespace: mounts the file systems of a machine, and runs the commands as the newcomer. Sourced.

# devices creates a /dev with the usual nodes and a separate devpts.
devices() { # root
  local node
  mount -t tmpfs -o mode=755 none "$1/dev"
  mkdir "$1/dev/pts" "$1/dev/shm"
  for node in null zero full random urandom tty; do
    : >"$1/dev/$node"
    mount --bind "/dev/$node" "$1/dev/$node"
  done
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 none "$1/dev/pts"
  mount -t tmpfs -o mode=1777 none "$1/dev/shm"
  ln -s pts/ptmx "$1/dev/ptmx"
  ln -s /proc/self/fd "$1/dev/fd"
  ln -s fd/0 "$1/dev/stdin"
  ln -s fd/1 "$1/dev/stdout"
  ln -s fd/2 "$1/dev/stderr"
}

# share_caches mounts this machine's caches of Go below those of the newcomer, who cannot change them.
share_caches() { # root, modules, builds
  local home=$1/home/newcomer own=$1/caches
  mkdir -p "$home/go/pkg/mod" "$home/.cache/go-build" "$own"
  chown -R "$uid:$uid" "$home/go" "$home/.cache"
  mount --bind "$2" "$home/go/pkg/mod"
  mount -o remount,bind,ro "$home/go/pkg/mod"
  mount -t tmpfs none "$own"
  mkdir -p "$own/new" "$own/work"
  mkdir "$own/new/"{{0..9},{a..f}}{{0..9},{a..f}} # the directories of the cache, which the newcomer may write
  chown -R "$uid:$uid" "$own/new"
  mount -t overlay -o "lowerdir=$3,upperdir=$own/new,workdir=$own/work" none "$home/.cache/go-build"
}

# as_newcomer runs a command in a login of the newcomer.
as_newcomer() { # root, command...
  timeout "$limit" chroot --userspec="$uid:$uid" --groups="$uid" "$1" /usr/bin/env -i \
    HOME=/home/newcomer USER=newcomer LOGNAME=newcomer SHELL=/bin/bash LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin \
    "${variables[@]}" "${@:2}" </dev/null
}

inside() { # root, Go's directory, and the caches of modules and builds, if shared
  local command began variables
  mount -t proc none "$1/proc"
  devices "$1"
  mkdir -p "$1/usr/local/go"
  mount --bind "$2" "$1/usr/local/go"
  mount -o remount,bind,ro "$1/usr/local/go"
  mapfile -t variables <"$1/settings"
  if [ $# != 2 ]; then
    share_caches "$1" "$3" "$4"
    as_newcomer "$1" go clean -testcache
  fi
  while read -r command; do
    printf '\nnewcomer: $ %s\n' "$command"
    began=$SECONDS
    as_newcomer "$1" bash -c "cd ~/npctl && $command" || { echo "newcomer: \"$command\" failed" >&2; return 1; }
    echo "newcomer: \"$command\" passed after $((SECONDS - began)) s"
  done <"$1/commands"
}
