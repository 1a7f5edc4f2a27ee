# memcached: cache of validated tokens. Sourced.

memcached_start() {
  start memcached "$PORT_MEMCACHED" \
    memcached -u "$(id -un)" -l "$ADDRESS" -p "$PORT_MEMCACHED" -m 64 -U 0
}
