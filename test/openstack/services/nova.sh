# Nova: servers without a hypervisor, see plugins/npctl_lab/compute.py. Sourced.

nova_configure() {
  local API_DATABASE_URL COMPUTE_HOST n
  API_DATABASE_URL=$(database_url nova_api)
  configure_service nova
  for n in $COMPUTES; do
    COMPUTE_HOST=compute$n
    render nova-compute.conf "$ETC/nova/compute$n.conf"
  done
}

nova_sync() { tables 'nova_api nova nova_cell0' nova_tables; }

nova_tables() {
  local manage="nova-manage $(config_of nova)"
  $manage api_db sync
  $manage cell_v2 map_cell0 --database_connection "$(database_url nova_cell0)"
  $manage cell_v2 list_cells | grep -q ' cell1 ' || $manage cell_v2 create_cell --name=cell1
  $manage db sync
}

nova_start() {
  mkdir -p "$DATA/nova"
  start nova-conductor - nova-conductor $(config_of nova)
  start nova-scheduler - nova-scheduler $(config_of nova)
  start nova-api "$PORT_NOVA" nova-api $(config_of nova)
}

nova_start_computes() {
  local n
  for n in $COMPUTES; do
    start "nova-compute$n" - env NPCTL_LAB_FAULTS="$FAULTS" \
      NPCTL_LAB_VCPUS="$HOST_VCPUS" NPCTL_LAB_MEMORY_MB="$HOST_MEMORY_MB" \
      NPCTL_LAB_DISK_GB="$HOST_DISK_GB" \
      $PYTHON "$LAB_SOURCE/plugins/nova-compute" $(config_of nova) \
      --config-file "$ETC/nova/compute$n.conf"
  done
}

nova_wait() { wait_for nova-api answers "$PORT_NOVA"; }

# The scheduler knows a host after its mapping to a cell.
nova_map_hosts() {
  local wanted
  wanted=$(wc -w <<<"$COMPUTES")
  [ "$(nova_count nova_api.host_mappings)" -lt "$wanted" ] || return 0
  wait_for nova-conductor nova_hosts_reported "$wanted"
  nova-manage $(config_of nova) cell_v2 discover_hosts --verbose >"$LOG/discover-hosts.log" 2>&1 ||
    { show_log discover-hosts; die "nova-manage cell_v2 discover_hosts failed"; }
}

nova_hosts_reported() { [ "$(nova_count 'nova.compute_nodes where deleted = 0')" -ge "$1" ]; }

nova_count() { sql -N -e "select count(*) from $1"; }
