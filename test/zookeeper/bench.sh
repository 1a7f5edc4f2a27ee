#!/bin/bash
# Measures npctl watch and a real nodepool-launcher one after the other, each on a new real ZooKeeper and with the same
# client. Prints one row of load for each driver and number of clients: name, clients, requests/s, latency p50 / p95 / p99,
# gone p50 / p95 (seconds), CPU seconds of the process for 1,000 requests, packets that ZooKeeper received for each request,
# number of these from the clients, MiB of anonymous memory. Then prints the CPU use of an idle process.
#
#   NPCTL_BENCH_CLIENTS   numbers of clients (default "1 10 50")
#   NPCTL_BENCH_TIME      duration of each measurement (default 20s, after 5 s of warm-up)
#   NPCTL_BENCH_DRIVERS   drivers (default "static cloud"): 100 static machines; nodes without delay, at most 100
#   NPCTL_BENCH_IDLE      seconds to measure the idle process (default 20)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
test/zookeeper/install.sh
venv=$(test/zookeeper/install.sh --nodepool)
export NPCTL_TEST_NODEPOOL=$venv NPCTL_TEST_ZOOKEEPER_JAVA= # a server as in production, with fsync
work=$(mktemp -d)
pid=
trap 'kill -9 $pid 2>/dev/null || true; test/zookeeper/launcher.sh kill "$work/nodepool" 2>/dev/null || true; test/zookeeper/lab.sh kill "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
go build -o "$work/bench" ./test/zookeeper/bench
go build -o "$work/npctl" ./cmd/npctl

# A pool serves no requests before it is registered; Nodepool needs about 5 s for that.
registered() { # log
  local limit=$((SECONDS + 60))
  until test/zookeeper/lab.sh word "$work/lab" dump | grep -q /nodepool/components/pool/; do
    ((SECONDS < limit)) || { tail -25 "$1" >&2; return 1; }
    sleep 0.5
  done
}

start_nodepool() { # driver
  test/zookeeper/launcher.sh config "$work/lab" "${1/cloud/test}" lab 100 small >"$work/nodepool.yaml"
  test/zookeeper/launcher.sh start "$work/nodepool" "$work/nodepool.yaml"
  registered "$work/nodepool/nodepool.log"
  pid=$(test/zookeeper/launcher.sh pid "$work/nodepool")
}

start_npctl() { # driver
  mkdir -p "$work/site"
  (. "$work/lab/env.sh" && cat <<END && "$1") >"$work/site/npctl.hcl"
npctl {
  state "zookeeper" {
    hosts = ["$NPCTL_TEST_ZOOKEEPER"]
    tls {
      cert = "$NPCTL_TEST_ZOOKEEPER_CERT"
      key  = "$NPCTL_TEST_ZOOKEEPER_KEY"
      ca   = "$NPCTL_TEST_ZOOKEEPER_CA"
    }
    file = "npctl.db"
  }
}

label "small" {}
END
  (cd "$work/site" && exec "$work/npctl" watch >"$work/npctl.log" 2>&1) &
  pid=$!
  registered "$work/npctl.log"
}

static() {
  cat <<'END'
provider "static" "lab" {
  pool "main" {
    node "machine" {
      for_each          = toset([for i in range(100) : "127.1.0.${i + 1}"])
      name              = each.key
      labels            = ["small"]
      host_keys         = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8e"]
      host_key_checking = false
    }
  }
}
END
}

cloud() {
  cat <<'END'
diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-c", "truncate -s 1M $NPCTL_OUTPUT.raw"]
  }
}

provider "sandbox" "lab" {
  image_format = "raw"
  rate         = 0
  build_time   = "0s"
  delete_time  = "0s"
  quota {
    instances = -1
    cores     = -1
    ram       = -1
  }
  pool "main" {
    max_servers       = 100
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}
END
}

idle() { # name: hundredths of a second of CPU
  local before after seconds=${NPCTL_BENCH_IDLE:-20}
  before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
  sleep "$seconds"
  after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
  awk -v used=$((after - before)) -v seconds="$seconds" -v name="$1" 'BEGIN { printf "%s: %.1f %% of a CPU when idle\n", name, used / seconds }'
}

for driver in ${NPCTL_BENCH_DRIVERS:-static cloud}; do
  for who in nodepool npctl; do
    test/zookeeper/lab.sh start "$work/lab" >&2
    "start_$who" "$driver"
    for clients in ${NPCTL_BENCH_CLIENTS:-1 10 50}; do
      (. "$work/lab/env.sh" && "$work/bench" -name "$who, $driver" -label small -clients "$clients" -pid "$pid" -time "${NPCTL_BENCH_TIME:-20s}")
    done
    idle "$who, $driver"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    test/zookeeper/lab.sh kill "$work/lab"
    rm -rf --one-file-system "$work/lab" "$work/nodepool" "$work/site"
  done
done
