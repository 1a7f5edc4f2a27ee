#!/bin/bash
# Measures a real nodepool-launcher on a real ZooKeeper: one row for each driver and number of clients, as load prints it:
# name, clients, requests/s, latency p50 / p95 / p99, gone p50 / p95 (seconds), CPU seconds of the launcher for 1,000
# requests, packets that ZooKeeper got for each request, how many of these the clients sent, MiB of the launcher.
#
#   NPCTL_BENCH_CLIENTS   numbers of clients (default "1 10 50")
#   NPCTL_BENCH_TIME      how long to measure each (default 20s, after 5 s of warm-up)
#   NPCTL_BENCH_DRIVERS   Nodepool's drivers (default "static test"): 100 static machines, nodes that are ready at once
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
test/zookeeper/install.sh
venv=$(test/zookeeper/install.sh --nodepool)
export NPCTL_TEST_NODEPOOL=$venv
work=$(mktemp -d)
trap 'test/zookeeper/launcher.sh kill "$work/nodepool" 2>/dev/null || true; test/zookeeper/lab.sh kill "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
go build -o "$work/bench" ./test/zookeeper/bench

# A pool is in the way of nobody until it is registered; Nodepool takes about 5 s for that.
registered() {
  local limit=$((SECONDS + 60))
  until test/zookeeper/lab.sh word "$work/lab" dump | grep -q /nodepool/components/pool/; do
    ((SECONDS < limit)) || { tail -25 "$work/nodepool/nodepool.log" >&2; return 1; }
    sleep 0.5
  done
}

for driver in ${NPCTL_BENCH_DRIVERS:-static test}; do
  test/zookeeper/lab.sh start "$work/lab" >&2
  test/zookeeper/launcher.sh config "$work/lab" "$driver" nodepool 100 small >"$work/nodepool.yaml"
  test/zookeeper/launcher.sh start "$work/nodepool" "$work/nodepool.yaml"
  registered
  pid=$(test/zookeeper/launcher.sh pid "$work/nodepool")
  for clients in ${NPCTL_BENCH_CLIENTS:-1 10 50}; do
    (. "$work/lab/env.sh" && "$work/bench" -name "nodepool, $driver" -label small -clients "$clients" -pid "$pid" -time "${NPCTL_BENCH_TIME:-20s}")
  done
  test/zookeeper/launcher.sh kill "$work/nodepool"
  test/zookeeper/lab.sh kill "$work/lab"
  rm -rf --one-file-system "$work/lab" "$work/nodepool"
done
