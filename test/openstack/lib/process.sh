# Functions that start, check and stop long-running programs. Sourced.
#
# $RUN/NAME.pid contains "PID STARTTIME", so that no signal reaches another
# program with a reused PID. Every program has its own session and process
# group: it survives the calling shell, and signals reach its workers too.

start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

pid_of() { # name: prints the pid when it runs
  local pid started
  read -r pid started 2>/dev/null <"$RUN/$1.pid" || return 1
  [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] && echo "$pid"
}

running() { pid_of "$1" >/dev/null; }

start() { # name port-or-dash command...
  local name=$1 port=$2 pid
  shift 2
  ! running "$name" || return 0
  [ "$port" = - ] || port_must_be_free "$name" "$port"
  setsid "$@" </dev/null >>"$LOG/$name.log" 2>&1 9>&- & # 9: up.sh's lock
  pid=$!
  echo "$pid $(start_time "$pid")" >"$RUN/$name.pid"
}

listening() { (exec 3<>"/dev/tcp/$ADDRESS/$1") 2>/dev/null; }

port_must_be_free() { # name port
  ! listening "$2" ||
    die "port $2 on $ADDRESS is taken by another program; stop it or set NPCTL_OPENSTACK_PORT_…, see settings.sh ($1)"
}

# stop sends SIGTERM, waits, and then kills the rest of the process group.
stop() { # name seconds
  local pid i
  if pid=$(pid_of "$1"); then
    kill -CONT -- "-$pid" 2>/dev/null || true # a stopped program does not handle SIGTERM
    kill -TERM "$pid" 2>/dev/null || true
    for ((i = 0; i < $2 * 10; i++)); do
      running "$1" || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  rm -f "$RUN/$1.pid"
}

# wait_for runs a command until it succeeds or the program dies, for five minutes.
wait_for() { # name command...
  local name=$1 limit=$((SECONDS + 300))
  shift
  until "$@" >/dev/null 2>&1; do
    running "$name" || { show_log "$name"; die "$name has ended"; }
    ((SECONDS < limit)) || { show_log "$name"; die "$name does not answer: $*"; }
    sleep 0.2
  done
}

answers() { curl -s -o /dev/null -m 5 "http://$ADDRESS:$1/"; }

show_log() { # name
  echo "--- last lines of $LOG/$1.log" >&2
  tail -25 "$LOG/$1.log" >&2 || true
}
