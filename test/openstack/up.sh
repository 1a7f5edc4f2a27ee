#!/bin/bash
# Starts an OpenStack of real services on loopback, and waits until it works.
# It can run again at any time and performs only missing actions. See README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/settings.sh"
. "$here/lib/process.sh"
. "$here/lib/render.sh"
for file in "$here"/services/*.sh; do . "$file"; done

SERVICES="keystone placement glance neutron nova cinder"

main() {
  "$here/install.sh" || exit 1
  prepare_work_directory
  configure
  start_backends
  synchronise_databases
  start_services
  fill_cloud
  write_environment
  say "up; to use it: . $WORK/env.sh"
}

prepare_work_directory() {
  [ ${#MYSQL_SOCKET} -le 100 ] || die "$WORK is too long a path for a socket; set NPCTL_OPENSTACK_WORK"
  mkdir -p "$WORK" "$ETC" "$LOG" "$RUN" "$DATA" "$WORK/lock" "$WORK/done"
  exec 9>"$WORK/up.lock"
  flock -n 9 || die "another up.sh or down.sh is at work in $WORK"
  [ -f "$FAULTS" ] || echo '[]' >"$FAULTS"
  remember_settings
}

# The databases contain addresses, so an existing lab keeps its ports.
remember_settings() {
  local now
  now=$(compgen -A variable PORT_ | sort | while read -r name; do echo "$name=${!name}"; done)
  if [ -f "$WORK/ports" ] && [ "$now" != "$(cat "$WORK/ports")" ]; then
    die "the lab in $WORK was made with other ports (see $WORK/ports); down.sh --purge it first"
  fi
  echo "$now" >"$WORK/ports"
}

configure() {
  local service
  for service in mariadb rabbitmq $SERVICES; do "${service}_configure"; done
}

start_backends() {
  memcached_start
  rabbitmq_start # takes longest; the first user waits for it
  mariadb_start
  mariadb_wait
  say "mariadb answers"
}

# once runs a step unless it has already succeeded in this work directory.
once() { # name command...
  [ -e "$WORK/done/$1" ] || { "${@:2}" && : >"$WORK/done/$1"; }
}

synchronise_databases() {
  local service failed= ; declare -A job
  once databases mariadb_create_databases
  for service in $SERVICES; do
    [ -e "$WORK/done/$service" ] && continue
    (set -e; "${service}_sync"; : >"$WORK/done/$service") >"$LOG/$service-sync.log" 2>&1 &
    job[$service]=$!
  done
  for service in "${!job[@]}"; do
    wait "${job[$service]}" || { show_log "$service-sync"; failed+=" $service"; }
  done
  [ -z "$failed" ] || die "making the databases failed:$failed"
  say "databases are there"
}

start_services() {
  local service
  keystone_start
  placement_start
  keystone_wait
  once identity python_step identity
  say "users and catalog are there"
  rabbitmq_wait
  nova_start
  neutron_start
  glance_start
  cinder_start
  placement_wait
  nova_start_computes
  for service in glance neutron nova cinder; do "${service}_wait"; done
  say "all APIs answer"
}

fill_cloud() {
  local APPCRED_ID
  APPCRED_ID=$(cat "$WORK/appcred.id")
  render clouds.yaml "$CLOUDS_YAML"
  chmod 600 "$CLOUDS_YAML"
  nova_map_hosts
  once contents python_step contents
  python_step ready
}

python_step() { # name
  PYTHONPATH="$here/cloud" OS_CLIENT_CONFIG_FILE="$CLOUDS_YAML" \
    AUTH_URL="$AUTH_URL" PASSWORD="$PASSWORD" REGION="$REGION" WORK="$WORK" \
    URL_GLANCE="http://$ADDRESS:$PORT_GLANCE" \
    URL_NOVA="http://$ADDRESS:$PORT_NOVA/v2.1" \
    URL_PLACEMENT="http://$ADDRESS:$PORT_PLACEMENT" \
    URL_NEUTRON="http://$ADDRESS:$PORT_NEUTRON" \
    URL_CINDER="http://$ADDRESS:$PORT_CINDER/v3/%(tenant_id)s" \
    $PYTHON "$here/cloud/fill.py" "$@"
}

write_environment() {
  cat >"$WORK/env.sh" <<END
export NPCTL_OPENSTACK_WORK='$WORK'
export OS_CLIENT_CONFIG_FILE='$CLOUDS_YAML'
export OS_CLOUD=npctl
END
  printf '%s\n' "$here" >"$WORK/source"
}

main "$@"
