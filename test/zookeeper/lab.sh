#!/bin/bash
# A real ZooKeeper on loopback, with TLS and client certificates, of one or more servers.
#   ./lab.sh start DIR [N]    start N servers (default 1); everything is below DIR, the settings for tests in DIR/env.sh.
#                             An existing DIR keeps its ports and data, and N has no effect.
#   ./lab.sh stop DIR         stop all servers; DIR stays
#   ./lab.sh restart DIR [I]  stop and start server I, or all
#   ./lab.sh kill DIR [I]     SIGKILL
#   ./lab.sh pause DIR [I]    SIGSTOP: connections stay open without responses
#   ./lab.sh cont DIR [I]     SIGCONT
#   ./lab.sh word DIR WORD    print the response of server 1 to a four-letter word: mntr, srvr, cons, wchs, dump …
#   ./lab.sh env DIR          print the settings
# Session timeouts may be 0.5 s to 120 s; Zuul requests 120 s.
#
#   NPCTL_TEST_ZOOKEEPER_TLS    directory with the certificates of another lab, DIR/tls, to copy instead of creating some
#   NPCTL_TEST_ZOOKEEPER_JAVA   options of Java. The default starts quickly and does not wait for the disk: only a crash of
#                               the host would lose records, not SIGKILL
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,16p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"
. "$source/../lib/ports.sh"

# The server and its clients have a certificate each; "stranger" is a client of another authority.
certificates() {
  if [ -n "${NPCTL_TEST_ZOOKEEPER_TLS:-}" ]; then # five keys of 3,072 bits take more CPU time than a server needs to start
    cp -r "$NPCTL_TEST_ZOOKEEPER_TLS" "$DIR/tls"
    return
  fi
  local make=$source/../../packaging/zookeeper/make-certificates.sh
  "$make" "$DIR/tls" server,localhost,127.0.0.1 client
  "$make" "$DIR/tls/other" stranger
}

port() { sed -n "$1p" "$DIR/ports" | cut -d' ' -f"$2"; } # server, 1 plain, 2 TLS, 3 among servers, 4 elections
servers() { seq "$(wc -l <"$DIR/ports")"; }

configuration() { # server
  local home=$DIR/server-$1 other
  mkdir -p "$home/data"
  echo "$1" >"$home/data/myid"
  cat >"$home/zoo.cfg" <<END
tickTime=500
initLimit=40
syncLimit=20
minSessionTimeout=500
maxSessionTimeout=120000
dataDir=$home/data
clientPortAddress=$ADDRESS
clientPort=$(port "$1" 1)
secureClientPortAddress=$ADDRESS
secureClientPort=$(port "$1" 2)
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=$DIR/tls/server.store.pem
ssl.trustStore.location=$DIR/tls/ca.pem
ssl.clientAuth=need
ssl.hostnameVerification=false
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
END
  if [ "$(servers | wc -l)" -gt 1 ]; then
    for other in $(servers); do
      echo "server.$other=$ADDRESS:$(port "$other" 3):$(port "$other" 4)"
    done >>"$home/zoo.cfg"
  fi
  printf '%s\n' 'log4j.rootLogger=WARN, A' 'log4j.appender.A=org.apache.log4j.ConsoleAppender' \
    'log4j.appender.A.layout=org.apache.log4j.PatternLayout' 'log4j.appender.A.layout.ConversionPattern=%d %p %m%n' \
    >"$home/log4j.properties"
}

launch() { # server
  local home=$DIR/server-$1 path
  # the jar of Debian's package does not list all its dependencies
  path=$home:$(printf '%s:' /usr/share/java/{zookeeper,slf4j-log4j12,log4j-1.2}.jar /usr/share/java/netty*.jar)
  start "zookeeper-$1" "$(port "$1" 2)" java -Xms64m -Xmx768m \
    ${NPCTL_TEST_ZOOKEEPER_JAVA--XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.forceSync=no} -Dzookeeper.jmx.log4j.disable=true -cp "$path" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$home/zoo.cfg"
}

say() { echo "$2" | nc -w2 -N $ADDRESS "$(port "$1" 1)"; } # server, word
serves() { say "$1" srvr | grep -q Mode; }

bring_up() { # server...
  local i
  for i; do launch "$i"; done
  for i; do wait_for "zookeeper-$i" serves "$i"; done
}

settings() {
  local hosts='' i
  for i in $(servers); do hosts+=,$ADDRESS:$(port "$i" 2); done
  printf 'export %s=%q\n' NPCTL_TEST_ZOOKEEPER "${hosts#,}" \
    NPCTL_TEST_ZOOKEEPER_CA "$DIR/tls/ca.pem" \
    NPCTL_TEST_ZOOKEEPER_CERT "$DIR/tls/client.pem" NPCTL_TEST_ZOOKEEPER_KEY "$DIR/tls/client.key" \
    NPCTL_TEST_ZOOKEEPER_STRANGER_CERT "$DIR/tls/other/stranger.pem" NPCTL_TEST_ZOOKEEPER_STRANGER_KEY "$DIR/tls/other/stranger.key" \
    NPCTL_TEST_ZOOKEEPER_PLAIN "$ADDRESS:$(port 1 1)" \
    NPCTL_TEST_ZOOKEEPER_LAB "$DIR" >"$DIR/env.sh"
}

first_time() { # count of servers
  local ports i
  mkdir -p "$RUN" "$LOG"
  certificates
  ports=$(choose_ports $((4 * $1)))
  xargs -n4 <<<"$ports" >"$DIR/ports"
  for i in $(servers); do configuration "$i"; done
  settings
}

chosen() { if [ -n "${1:-}" ]; then echo "$1"; else servers; fi; }

signal() { # name of the signal, server...
  local name=$1 i pid
  shift
  for i; do
    pid=$(pid_of "zookeeper-$i") || die "server $i does not run"
    kill "-$name" "$pid"
  done
}

killed() { # server...: those that run
  local i pid
  for i; do
    ! pid=$(pid_of "zookeeper-$i") || kill -KILL "$pid"
    down "$i"
  done
}

down() { # server...
  local i
  for i; do stop "zookeeper-$i" 10; done
}

[ "$1" = start ] || [ -s "$DIR/ports" ] || die "nothing was started in $DIR"
case $1 in
  start)
    [ -s "$DIR/env.sh" ] || first_time "${3:-1}"
    bring_up $(servers)
    echo "ZooKeeper listens at $(. "$DIR/env.sh" && echo "$NPCTL_TEST_ZOOKEEPER")" ;;
  stop) down $(servers) ;;
  restart) down $(chosen "${3:-}"); bring_up $(chosen "${3:-}") ;;
  kill) killed $(chosen "${3:-}") ;;
  pause) signal STOP $(chosen "${3:-}") ;;
  cont) signal CONT $(chosen "${3:-}") ;;
  word) say 1 "${3:?four-letter word}" ;;
  env) cat "$DIR/env.sh" ;;
  *) sed -n 2,16p "$0"; exit 2 ;;
esac
