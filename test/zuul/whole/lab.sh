#!/bin/bash
# A complete Zuul on loopback that runs jobs: ZooKeeper with TLS, PostgreSQL on a socket, git repositories, zuul-scheduler,
# zuul-merger, zuul-executor with bubblewrap and Ansible, zuul-web; and machines for jobs, each a real sshd with its own
# address. The lab has no launcher, which assigns the machines to Zuul.
#   ./lab.sh start DIR VENV ANSIBLE [review]   start it, as root, with a Gerrit if the last word is there; all files are below DIR,
#                                              which needs a short path; settings for tests are in DIR/env.sh
#   ./lab.sh stop DIR                 stop it; DIR stays
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,9p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../../openstack/lib/process.sh"
. "$source/../../lib/ports.sh"
. "$source/../lib.sh"

machines=(127.77.0.1 127.77.0.2 127.77.0.3)

repositories() { # review; the projects "config", "app" and "roles", and a working copy of "app" to push from
  local name from
  for name in config app roles; do
    from=$source/git/$name
    if [ "$name" = roles ]; then from=$source/../../../packaging/ansible; fi
    git init -q --bare -b main "$DIR/git/$name"
    cp -r "$from" "$DIR/work-$name"
    if [ "$name$1" = configreview ]; then cat "$source/git/review.yaml" >>"$DIR/work-config/zuul.yaml"; fi
    git init -q -b main "$DIR/work-$name"
    git -C "$DIR/work-$name" config user.name tester
    git -C "$DIR/work-$name" config user.email tester@example.org
    git -C "$DIR/work-$name" add .
    git -C "$DIR/work-$name" commit -q -m begin
    git -C "$DIR/work-$name" commit -q -m 'go on' --allow-empty
    git -C "$DIR/work-$name" remote add origin "$DIR/git/$name"
    git -C "$DIR/work-$name" push -q origin main
  done
}

# The project "fleet" is in a Gerrit, which Zuul watches as its administrator.
code_review() {
  local work=$DIR/work-fleet
  "$source/../../gerrit/lab.sh" start "$DIR/gerrit"
  . "$DIR/gerrit/env.sh"
  rest() { curl -sf -u "admin:$NPCTL_TEST_GERRIT_PASSWORD" -H 'Content-Type: application/json' -o /dev/null -X PUT -d "$2" "$NPCTL_TEST_GERRIT/a/projects/$1"; }
  rest fleet '{"branches": ["main"], "create_empty_commit": true}'
  rest fleet/labels/Verified '{"values": {"+1": "passed", " 0": "unknown", "-1": "failed"}, "function": "NoBlock"}'
  curl -sf -u "admin:$NPCTL_TEST_GERRIT_PASSWORD" -H 'Content-Type: application/json' -o /dev/null -d '{"add": {"refs/heads/*": {"permissions":
    {"label-Verified": {"label": "Verified", "rules": {"global:Registered-Users": {"action": "ALLOW", "min": -1, "max": 1}}}}}}}' "$NPCTL_TEST_GERRIT/a/projects/fleet/access"
  git clone -q "http://admin:${NPCTL_TEST_GERRIT_PASSWORD//\//%2F}@${NPCTL_TEST_GERRIT#http://}/a/fleet" "$work"
  git -C "$work" config user.name Administrator
  git -C "$work" config user.email admin@example.com
  cp -r "$source/git/fleet/." "$work"
  git -C "$work" checkout -q -B main
  git -C "$work" add .
  git -C "$work" commit -q -m begin
  git -C "$work" push -q origin HEAD:refs/heads/main
}

# The key of the executor permits every login; each machine has its own host key.
sshds() { # port
  local address
  mkdir -p "$DIR/ssh" /run/sshd
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$DIR/ssh/id"
  for address in "${machines[@]}"; do
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$DIR/ssh/$address"
    start "sshd-$address" - /usr/sbin/sshd -D -e -f /dev/null -h "$DIR/ssh/$address" -o "ListenAddress=$address:$1" \
      -o "AuthorizedKeysFile=$DIR/ssh/id.pub" -o StrictModes=no -o PidFile=none -o UsePAM=no
  done
}

# Disables the load limits of the executor, because the host runs other processes too.
settings() { # finger port, web port, ansible, port of published images
  zuul_conf "$2"
  cat >>"$DIR/zuul.conf" <<CONF
[connection git]
driver=git
baseurl=file://$DIR/git
poll_delay=1
[merger]
git_dir=$DIR/merger-git
git_user_name=zuul
git_user_email=zuul@example.org
command_socket=$DIR/state/merger.socket
[executor]
hostname=localhost
state_dir=$DIR/state
git_dir=$DIR/executor-git
job_dir=$DIR/builds
command_socket=$DIR/state/executor.socket
finger_port=$1
private_key_file=$DIR/ssh/id
variables=$DIR/site.yaml
trusted_rw_paths=$LOG
ansible_root=$3
manage_ansible=false
ansible_setup_timeout=120
load_multiplier=100
min_avail_mem=1
min_avail_hdd=1
sigterm_method=stop
CONF
  if [ -s "$DIR/gerrit/env.sh" ]; then
    cat >>"$DIR/zuul.conf" <<CONF
[connection gerrit]
driver=gerrit
server=$ADDRESS
port=$NPCTL_TEST_GERRIT_SSH
baseurl=$NPCTL_TEST_GERRIT
user=admin
sshkey=$NPCTL_TEST_GERRIT_KEY
password=$NPCTL_TEST_GERRIT_PASSWORD
auth_type=basic
CONF
  fi
  printf '%s\n' "npctl_site: $DIR" "npctl_images: http://$ADDRESS:$4" "npctl_zuul_api: http://$ADDRESS:$2/api/tenant/site" 'zuul_console_disabled: true' "ansible_remote_tmp: $DIR/ansible-remote" >"$DIR/site.yaml"
  cat >"$DIR/tenants.yaml" <<CONF
- tenant:
    name: site
    source:
      git:
        config-projects: [{config: {load-branch: main}}]
        untrusted-projects: [app, roles]
CONF
  [ ! -s "$DIR/gerrit/env.sh" ] || printf '      gerrit:\n        untrusted-projects: [{fleet: {include: []}}]\n' >>"$DIR/tenants.yaml"
}

begin() { # program, venv
  start "$1" - "$2/bin/zuul-$1" -d -f -c "$DIR/zuul.conf"
}

# Zuul is up when zuul-web lists its pipelines and an executor.
is_up() { # web port
  curl -sf -m 5 "http://$ADDRESS:$1/api/tenant/site/pipelines" | grep -q patient || return 1
  curl -sf -m 5 "http://$ADDRESS:$1/api/components" | python3 -c '
import json, sys
there = json.load(sys.stdin)
sys.exit(not all(any(c["state"] == "running" for c in there.get(kind, [])) for kind in ("scheduler", "merger", "executor")))'
}

case $1 in
  start)
    venv=$(realpath "${3:?virtual environment with zuul}") ansible=$(realpath "${4:?directory with ansible}")
    mkdir -p "$RUN" "$LOG" "$DIR"/{state,builds,ran,go,git,images,sources}
    chmod 755 "$DIR" # the database runs as another user
    meeting_place
    postgres
    repositories "${5:-}"
    if [ "${5:-}" = review ]; then code_review; fi
    read -r finger web ssh images < <(choose_ports 4)
    sshds "$ssh"
    settings "$finger" "$web" "$ansible" "$images"
    start images - python3 -m http.server "$images" --bind "$ADDRESS" --directory "$DIR/images"
    for name in scheduler merger executor web; do begin "$name" "$venv"; done
    wait_for web is_up "$web"
    for name in scheduler merger executor; do
      running "$name" || { show_log "$name"; die "$name has ended"; }
    done
    admin_token "$venv" site 3600
    cat "$DIR/zookeeper/env.sh" >"$DIR/env.sh"
    [ ! -s "$DIR/gerrit/env.sh" ] || cat "$DIR/gerrit/env.sh" >>"$DIR/env.sh"
    printf 'export %s=%q\n' NPCTL_TEST_ZUUL_SITE "$DIR" NPCTL_TEST_ZUUL_WEB "http://$ADDRESS:$web" NPCTL_TEST_ZUUL_SSH "$ssh" \
      NPCTL_TEST_ZUUL_MACHINES "${machines[*]}" NPCTL_TEST_ZUUL_TOKEN "$DIR/admin-token" NPCTL_TEST_ZUUL_VENV "$venv" >>"$DIR/env.sh"
    echo "Zuul is at http://$ADDRESS:$web/, its machines at port $ssh of ${machines[*]}" ;;
  stop)
    for name in images web executor merger scheduler; do stop "$name" 10; done
    for address in "${machines[@]}"; do stop "sshd-$address" 2; done
    stop postgres 10
    [ ! -d "$DIR/gerrit" ] || "$source/../../gerrit/lab.sh" stop "$DIR/gerrit"
    leave_meeting_place ;;
  *) sed -n 2,9p "$0"; exit 2 ;;
esac
