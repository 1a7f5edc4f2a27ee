# Ports of loopback for servers of tests. Sourced.

# choose_ports takes free ports below those that the kernel gives to connections, so that a server that is restarted
# finds its own again.
choose_ports() { # count
  python3 - "$1" <<'PYTHON'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    try:
        held.append(socket.create_server(("127.0.0.1", random.randrange(20000, 32000))))
    except OSError:
        pass
print(*[s.getsockname()[1] for s in held])
PYTHON
}
