# Neutron: networks, ports, floating IPs; no agents, see plugins/npctl_lab/network.py. Sourced.

neutron_configure() { configure_service neutron; }

neutron_sync() { tables neutron neutron-db-manage $(config_of neutron) upgrade heads; }

neutron_start() {
  mkdir -p "$DATA/neutron"
  start neutron "$PORT_NEUTRON" env PYTHONPATH="$LAB_SOURCE/plugins" \
    neutron-server $(config_of neutron)
}

neutron_wait() { wait_for neutron answers "$PORT_NEUTRON"; }
