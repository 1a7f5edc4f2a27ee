# Cinder: volumes without content, see plugins/npctl_lab/volume.py. Sourced.

cinder_configure() { configure_service cinder; }

cinder_sync() { tables cinder cinder-manage $(config_of cinder) db sync; }

cinder_start() {
  mkdir -p "$DATA/cinder"
  start cinder-api "$PORT_CINDER" cinder-api $(config_of cinder)
  start cinder-scheduler - cinder-scheduler $(config_of cinder)
  start cinder-volume - env PYTHONPATH="$LAB_SOURCE/plugins" NPCTL_LAB_FAULTS="$FAULTS" \
    cinder-volume $(config_of cinder)
}

cinder_wait() { wait_for cinder-api answers "$PORT_CINDER"; }
