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

# tables runs a command that creates the tables of databases, or restores what the command has made before with the same versions
# of the services and the same addresses: the commands execute every migration since the first release.
tables() { # databases command...
  local databases=$1 cache version new
  shift
  version=$({ echo "$MYSQL_SOCKET $TRANSPORT_URL"; dpkg-query -W mariadb-server python3-{keystone,glance,placement,nova,neutron,cinder}; } |
    sha256sum | head -c 12)
  cache=${TMPDIR:-/tmp}/npctl-openstack-tables-$version
  mkdir -p "$cache"
  cache+=/${databases// /-}.sql
  if [ -e "$cache" ]; then
    sql <"$cache"
    return
  fi
  "$@"
  new=$(mktemp "$cache.XXXXXX") # other labs may start at the same time
  mariadb-dump --no-defaults -S "$MYSQL_SOCKET" -u "$(id -un)" --skip-comments --databases $databases >"$new"
  mv "$new" "$cache"
}
