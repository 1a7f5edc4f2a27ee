# Placement: capacity of the hosts. Sourced.

placement_configure() {
  configure_service placement
  # it reads one file in one directory, and uses no message queue
  sed -i '/^transport_url/d' "$ETC/placement/common.conf"
  cat "$ETC/placement/common.conf" >>"$ETC/placement/placement.conf"
  configure_uwsgi placement /usr/bin/placement-api "$PORT_PLACEMENT" 2
}

placement_sync() { tables placement placement-manage --config-file "$ETC/placement/placement.conf" db sync; }

placement_start() {
  start placement "$PORT_PLACEMENT" env OS_PLACEMENT_CONFIG_DIR="$ETC/placement" \
    uwsgi --ini "$ETC/placement/uwsgi.ini"
}

placement_wait() { wait_for placement answers "$PORT_PLACEMENT"; }
