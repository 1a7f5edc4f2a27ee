"""Controls a Zuul (see peer.py) with lines of JSON: one command per line on stdin, one result per line on stdout, in the order
in which they end. Logs go to stderr. At the end of its input it closes the session and exits; a kill leaves the session open.

    {"id": 1, "do": "request", "labels": ["small"], "priority": 200}
    {"id": 1, "ok": {"request": "200-0000000000"}}
    {"id": 2, "do": "accept", "request": "200-0000000000"}
    {"id": 2, "error": "Accepting nodes failed", "kind": "Exception"}

Every function with the prefix "do_" is a command. Its arguments are the members of the command; those with a default are
optional. Times are in seconds.
"""

import argparse
import inspect
import json
import logging
import sys
import threading
from importlib.metadata import version

from kazoo.recipe.lock import Lock

import scenario
from peer import Peer


class Commands:
    def __init__(self, peer):
        self.peer = peer
        self.locks = {}

    def do_hello(self):
        return {"system": self.peer.system, "session": self.peer.client.client_id[0],
                "state": self.peer.client.state, "zuul": version("zuul"), "kazoo": version("kazoo")}

    # Requests

    def do_request(self, labels, priority=200, relative_priority=0, provider=None,
                   tenant="acme", pipeline="check", job="unit"):
        request = self.peer.request(labels, priority, relative_priority, provider, tenant, pipeline, job)
        return {"request": request.id, "requestor_data": request.toDict()["requestor_data"]}

    def do_wait(self, request, timeout=60):
        state = self.peer.scheduler.wait(request, timeout)
        if state == "deleted":
            return {"state": state}
        found = self.peer.find(request)
        return {"state": state, "nodes": found.nodes, "requestor_data": found.toDict()["requestor_data"]}

    def do_revise(self, request, relative_priority):
        """Returns whether the revision succeeded: a locked request cannot be revised."""
        found = self.peer.find(request)
        return {"revised": self.peer.scheduler.reviseRequest(found, relative_priority) is not False}

    def do_cancel(self, request):
        self.peer.scheduler.cancelRequest(self.peer.find(request))

    # Nodes

    def do_accept(self, request):
        nodeset = self.peer.accept(request)
        return {"nodes": [dict(n.toDict(), label=n.label) for n in nodeset.getNodes()]}

    def do_use(self, request, tenant="acme", project="acme/project"):
        self.peer.use(request, tenant, project)

    def do_return(self, request, tenant="acme", project="acme/project"):
        self.peer.give_back(request, tenant, project)

    def do_hold(self, request, reason="", expiration=None, tenant="acme", project="acme/project", job="unit"):
        """Ends a build for which an autohold request exists."""
        hold = self.peer.hold_later(reason, expiration, tenant, project, job)
        self.peer.hold(request, hold.id)
        return {"hold": hold.id}

    def do_end_hold(self, hold):
        self.peer.end_hold(hold)

    def do_launchers(self):
        found = self.peer.scheduler.zk_nodepool.getRegisteredLaunchers()
        return [{"id": p.id, "labels": sorted(p.supported_labels)} for p in found]

    def do_run(self, **options):
        return scenario.run(self.peer, **options)

    # Raw records

    def do_read(self, path):
        data, stat = self.peer.client.get(path)
        return {"data": data.decode("utf8", "replace"), "version": stat.version, "mzxid": stat.mzxid,
                "owner": stat.ephemeralOwner, "children": stat.numChildren}

    def do_children(self, path):
        return sorted(self.peer.client.get_children(path))

    def do_create(self, path, data="", ephemeral=False):
        path = self.peer.client.create(path, data.encode("utf8"), makepath=True, ephemeral=ephemeral)
        return {"path": path}

    def do_write(self, path, data=""):
        self.peer.client.set(path, data.encode("utf8"))

    def do_await(self, path, match=None, timeout=60):
        """Waits until the JSON of the znode has the members of match, or without match until the znode is gone."""
        def good(data):
            if match is None or data is None:
                return match is None and data is None
            have = json.loads(data) if data else {}
            return all(have.get(k) == v for k, v in match.items())
        data = self.peer.wait_until(path, good, timeout)
        return {"data": data.decode("utf8") if data else None}

    # Locks

    def do_lock(self, path, timeout=0):
        """Acquires kazoo's lock, without waiting if no timeout is set. Returns whether it succeeded."""
        lock = Lock(self.peer.client, path)
        got = lock.acquire(timeout=timeout) if timeout else lock.acquire(blocking=False)
        if got:
            self.locks[path] = lock
        return {"locked": got}

    def do_unlock(self, path):
        self.locks.pop(path).release()

    def do_contenders(self, path):
        return Lock(self.peer.client, path).contenders()

    # The session

    def do_connect(self):
        """Waits until the server answers, in this session or a new one."""
        self.peer.client.retry(self.peer.client.exists, "/")
        return self.do_hello()

    def do_cut(self):
        self.peer.cut()

    def do_expire(self):
        self.peer.expire()


class Driver:
    def __init__(self, commands, out):
        self.commands, self.out = commands, out
        self.writing = threading.Lock()

    def answer(self, answer):
        with self.writing:
            self.out.write(json.dumps(answer, default=str) + "\n")
            self.out.flush()

    def obey(self, command):
        number = command.pop("id", None)
        name = command.pop("do", "")
        try:
            method = getattr(self.commands, "do_" + name, None)
            if method is None:
                raise LookupError("no command %r; there are %s" % (name, ", ".join(
                    n[3:] for n, _ in inspect.getmembers(self.commands) if n.startswith("do_"))))
            self.answer({"id": number, "ok": method(**command)})
        except Exception as e:
            logging.exception("%s", name)
            self.answer({"id": number, "error": str(e) or type(e).__name__, "kind": type(e).__name__})

    def run(self, lines):
        for line in lines:
            threading.Thread(target=self.obey, args=(json.loads(line),), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description="drive a Zuul by lines of JSON")
    for name in "hosts", "cert", "key", "ca":
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--timeout", type=float, default=10, help="of the session, in seconds")
    parser.add_argument("--system", help="the requestor of requests; without it what Zuul keeps in /zuul-system")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    out, sys.stdout = sys.stdout, sys.stderr  # output of libraries is not a result
    peer = Peer(**vars(options))
    Driver(Commands(peer), out).run(sys.stdin)
    peer.stop()


main()
