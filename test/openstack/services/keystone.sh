# Keystone: users, projects, tokens, the catalog. Sourced.

keystone_configure() {
  local DATABASE_URL
  DATABASE_URL=$(database_url keystone)
  render keystone.conf "$ETC/keystone/keystone.conf"
  configure_uwsgi keystone /usr/bin/keystone-wsgi-public "$PORT_KEYSTONE" 3
}

keystone_sync() {
  local manage="keystone-manage --config-file $ETC/keystone/keystone.conf"
  local owner="--keystone-user $(id -un) --keystone-group $(id -gn)"
  mkdir -p "$DATA"/keystone/{fernet,credential}-keys
  chmod 700 "$DATA"/keystone/*-keys
  tables keystone $manage db_sync
  $manage fernet_setup $owner
  $manage credential_setup $owner
  $manage bootstrap \
    --bootstrap-username admin --bootstrap-password "$PASSWORD" \
    --bootstrap-project-name admin --bootstrap-role-name admin \
    --bootstrap-service-name keystone --bootstrap-region-id "$REGION" \
    --bootstrap-admin-url "$AUTH_URL" --bootstrap-public-url "$AUTH_URL" \
    --bootstrap-internal-url "$AUTH_URL"
}

keystone_start() {
  start keystone "$PORT_KEYSTONE" env OS_KEYSTONE_CONFIG_FILES="$ETC/keystone/keystone.conf" \
    uwsgi --ini "$ETC/keystone/uwsgi.ini"
}

keystone_wait() { wait_for keystone answers "$PORT_KEYSTONE"; }
