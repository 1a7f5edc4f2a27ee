# Loopback ports for test servers. Sourced.

# choose_ports selects free ports below the ephemeral ports of the kernel, so that a restarted server can use the same port
# again.
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
