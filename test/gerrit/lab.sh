#!/bin/bash
# A real Gerrit 3.9 on loopback, from Maven Central. It takes about 20 s and 600 MB of memory. It reports its version as (dev).
#   ./lab.sh start DIR    everything is below DIR, the settings for tests in DIR/env.sh
#   ./lab.sh stop DIR     stop it; DIR stays
#   ./lab.sh purge DIR    stop it and delete DIR
#   ./lab.sh env DIR      print the settings
# REST with `curl -u admin:PASSWORD URL/a/…`, git at URL/a/PROJECT, ssh as admin with DIR/key.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,7p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"
. "$source/../lib/ports.sh"

# site creates the site, with accounts that log in without a password in the browser.
site() {
  local port sshd
  "${gerrit[@]}" init "$DIR/site" >"$LOG/init.log" 2>&1 || { tail -25 "$LOG/init.log" >&2; die 'gerrit init failed'; }
  read -r port sshd <<<"$(choose_ports 2)"
  c() { git config -f "$DIR/site/etc/gerrit.config" "$@"; }
  c gerrit.canonicalWebUrl "http://$ADDRESS:$port/"
  c httpd.listenUrl "http://$ADDRESS:$port/"
  c sshd.listenAddress "$ADDRESS:$sshd"
  c sendemail.enable false
  echo "$port" >"$DIR/port"
  echo "$sshd" >"$DIR/sshd"
}

# password logs in as the first account, the administrator, and creates its HTTP password.
password() {
  local jar=$DIR/cookies xsrf password
  curl -s -c "$jar" -o /dev/null "$url/login/%23%2F?account_id=1000000"
  curl -s -b "$jar" -c "$jar" -o /dev/null "$url/"
  xsrf=$(awk '$6 == "XSRF_TOKEN" { print $7 }' "$jar") password=$(head -c 12 /dev/urandom | base64 | tr '+/' 'xy')
  curl -sf -b "$jar" -H "X-Gerrit-Auth: $xsrf" -H 'Content-Type: application/json' -X PUT -o /dev/null \
    -d "{\"http_password\":\"$password\"}" "$url/accounts/self/password.http" || die 'the administrator got no password'
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$DIR/key"
  curl -sf -u "admin:$password" -H 'Content-Type: text/plain' -o /dev/null --data-binary "@$DIR/key.pub" "$url/a/accounts/self/sshkeys" || die 'the administrator got no key'
  printf 'export %s=%q\n' NPCTL_TEST_GERRIT "$url" NPCTL_TEST_GERRIT_PASSWORD "$password" \
    NPCTL_TEST_GERRIT_SSH "$(cat "$DIR/sshd")" NPCTL_TEST_GERRIT_KEY "$DIR/key" >"$DIR/env.sh"
}

case $1 in
  start)
    mkdir -p "$RUN" "$LOG"
    classpath=$("$source/install.sh" --classpath)
    gerrit=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx600m -cp "$(cat "$classpath")" "$source/Gerrit.java")
    [ -s "$DIR/port" ] || site
    url=http://$ADDRESS:$(cat "$DIR/port")
    start gerrit "$(cat "$DIR/port")" "${gerrit[@]}" daemon "$DIR/site"
    wait_for gerrit curl -sf -m 3 "$url/config/server/version"
    [ -s "$DIR/env.sh" ] || password
    echo "Gerrit listens at $url" ;;
  stop) stop gerrit 10 ;;
  purge) stop gerrit 10; rm -rf --one-file-system "$DIR" ;;
  env) cat "$DIR/env.sh" ;;
  *) sed -n 2,7p "$0"; exit 2 ;;
esac
