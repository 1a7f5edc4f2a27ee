# Glance: images, as files. Sourced.

glance_configure() { configure_service glance; }

glance_sync() { tables glance glance-manage $(config_of glance) db_sync; }

glance_start() {
  mkdir -p "$DATA"/glance/{images,staging,cache}
  start glance "$PORT_GLANCE" glance-api $(config_of glance)
}

glance_wait() { wait_for glance answers "$PORT_GLANCE"; }
