#!/bin/bash
# A real nodepool-launcher, or another program of Nodepool's package, beside a lab.
#   ./launcher.sh config LAB DRIVER PROVIDER COUNT LABEL...   print a nodepool.yaml: one provider with a pool "main" that
#                             serves all the labels with COUNT nodes. Drivers: static (without a check of SSH), fake (its
#                             own emulated OpenStack, with capacity for 20 servers), test (ready without delay)
#   ./launcher.sh connection LAB   print the part of a nodepool.yaml with the servers of the lab
#   ./launcher.sh start DIR CONFIG [PROGRAM]   start it (default nodepool-launcher); its files are below DIR. The clouds of
#                             DIR/clouds.yaml are available to it
#   ./launcher.sh stop DIR    stop it as operators do; this removes its registrations
#   ./launcher.sh kill DIR    SIGKILL: its session stays until it times out
#   ./launcher.sh pause|cont DIR
#   ./launcher.sh pid DIR     print its process ID
#
#   NPCTL_TEST_NODEPOOL       the virtual environment with Nodepool; the default is that of install.sh
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,15p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR LOG=$DIR ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"

connection() { # lab
  . "$1/env.sh"
  local host
  echo 'zookeeper-servers:'
  for host in ${NPCTL_TEST_ZOOKEEPER//,/ }; do
    printf '  - host: %s\n    port: %s\n' "${host%:*}" "${host##*:}"
  done
  cat <<END
zookeeper-tls:
  cert: $NPCTL_TEST_ZOOKEEPER_CERT
  key: $NPCTL_TEST_ZOOKEEPER_KEY
  ca: $NPCTL_TEST_ZOOKEEPER_CA
END
}

labels() { # label...
  echo 'labels:'
  printf '  - name: %s\n' "$@"
}

static() { # provider, count, label...
  local provider=$1 count=$2 all i
  shift 2
  all=$(printf ', %s' "$@")
  printf 'providers:\n  - name: %s\n    driver: static\n    pools:\n      - name: main\n        nodes:\n' "$provider"
  for ((i = 0; i < count; i++)); do
    printf '          - {name: 127.1.%d.%d, labels: [%s], host-key-checking: false, username: zuul}\n' \
      $((i / 250)) $((i % 250 + 1)) "${all:2}"
  done
}

fake() { # provider, count, label...
  local provider=$1 count=$2
  shift 2
  cat <<END
providers:
  - name: $provider
    driver: fake
    cloud: fake
    region-name: fake-region
    rate: 0.0001
    cloud-images:
      - name: fake-image
        image-name: Fake Precise
    pools:
      - name: main
        max-servers: $count
        host-key-checking: false
        availability-zones: [az1]
        labels:
END
  printf '          - {name: %s, cloud-image: fake-image, min-ram: 8192}\n' "$@"
}

test_driver() { # provider, count, label...
  local provider=$1 count=$2 all
  shift 2
  all=$(printf ', %s' "$@")
  printf 'providers:\n  - name: %s\n    driver: test\n    pools:\n      - {name: main, max-servers: %d, labels: [%s]}\n' \
    "$provider" "$count" "${all:2}"
}

configuration() { # lab, driver, provider, count, label...
  local driver=$2
  connection "$1"
  labels "${@:5}"
  case $driver in
    static | fake) "$driver" "${@:3}" ;;
    test) test_driver "${@:3}" ;;
    *) die "driver $driver: there are static, fake and test" ;;
  esac
}

programs() { printf '%s' "${NPCTL_TEST_NODEPOOL:-$("$source/install.sh" --nodepool)}/bin"; }

ask() { # signal, seconds: send it and wait for the end
  local pid i
  pid=$(pid_of nodepool) || die "nothing runs in $DIR"
  kill -CONT "$pid"
  kill "-$1" "$pid"
  for ((i = 0; i < $2 * 10; i++)); do
    running nodepool || break
    sleep 0.1
  done
  stop nodepool 0
}

case $1 in
  config)
    [ $# -ge 6 ] || { sed -n 2,15p "$0"; exit 2; }
    configuration "$DIR" "${@:3}" ;;
  connection) connection "$DIR" ;;
  start)
    config=$(realpath "${3:?configuration}") program=${4:-nodepool-launcher}
    mkdir -p "$DIR"
    # nothing connects to this OpenStack, but openstacksdk requires its configuration
    [ -e "$DIR/clouds.yaml" ] ||
      printf 'clouds:\n  fake:\n    auth: {auth_url: http://fake.example.org, username: fake, password: fake, project_name: fake}\n' \
        >"$DIR/clouds.yaml"
    arguments=(-c "$config" -f)
    [ "$program" != nodepool-launcher ] || grep -q '^webapp:' "$config" || arguments+=(--no-webapp)
    export OS_CLIENT_CONFIG_FILE=$DIR/clouds.yaml
    start nodepool - "$(programs)/$program" "${arguments[@]}" ;;
  stop) ask INT 20 ;;
  kill) ask KILL 5 ;;
  pause | cont) kill "-$([ "$1" = pause ] && echo STOP || echo CONT)" "$(pid_of nodepool)" ;;
  pid) pid_of nodepool || die "nothing runs in $DIR" ;;
  *) sed -n 2,15p "$0"; exit 2 ;;
esac
