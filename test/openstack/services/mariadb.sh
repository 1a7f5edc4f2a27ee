# MariaDB: every service's database. Sourced.

mariadb_databases="keystone glance placement nova_api nova nova_cell0 neutron cinder"

database_url() { echo "mysql+pymysql://lab:lab@localhost/$1?unix_socket=$MYSQL_SOCKET&charset=utf8"; }

sql() { mariadb --no-defaults -S "$MYSQL_SOCKET" -u "$(id -un)" "$@"; }

mariadb_configure() {
  local USER_NAME # runs as the caller, because user mysql has no access to $WORK
  USER_NAME=$(id -un)
  render mariadb.cnf "$ETC/mariadb.cnf"
}

mariadb_start() {
  if [ ! -d "$DATA/mysql/mysql" ]; then
    mkdir -p "$DATA/mysql"
    mariadb-install-db --defaults-file="$ETC/mariadb.cnf" --user="$(id -un)" \
      --auth-root-socket-user="$(id -un)" --auth-root-authentication-method=socket \
      --skip-test-db >"$LOG/mariadb-install.log" 2>&1 ||
      die "mariadb-install-db failed, see $LOG/mariadb-install.log"
  fi
  start mariadb - mariadbd --defaults-file="$ETC/mariadb.cnf"
}

mariadb_wait() { wait_for mariadb sql -e 'select 1'; }

mariadb_create_databases() {
  local name
  {
    echo "create user if not exists lab@localhost identified by 'lab';"
    for name in $mariadb_databases; do
      echo "create database if not exists $name; grant all on $name.* to lab@localhost;"
    done
  } | sql
}
