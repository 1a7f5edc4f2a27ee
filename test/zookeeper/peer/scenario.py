"""Many concurrent clients that repeatedly request, use and return nodes."""

import threading
import time


def run(peer, labels, clients=10, each=1, use=0, timeout=60, gone=True, tenant="acme", project="acme/project", **request):
    """Each client makes the number of requests in each, one after the other, and uses the nodes for use seconds. With gone
    it waits until their records are gone. The result has one entry for every request, with the time of the use of its
    nodes, so that the caller can check whether a node ever had two users."""
    entries, adding = [], threading.Lock()

    def client():
        for _ in range(each):
            entry = once(peer, labels, use, timeout, gone, tenant, project, request)
            with adding:
                entries.append(entry)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"requests": entries}


def once(peer, labels, use, timeout, gone, tenant, project, options):
    began = time.time()
    entry = {"request": None, "state": None, "error": None, "nodes": []}
    try:
        defaults = dict(priority=200, relative_priority=0, provider=None, pipeline="check", job="unit")
        request_id = peer.request(labels, tenant=tenant, **{**defaults, **options}).id
        entry["request"] = request_id
        entry["state"] = peer.scheduler.wait(request_id, timeout)
        entry["latency"] = time.time() - began
        if entry["state"] == "fulfilled":
            hold(peer, entry, use, tenant, project)
            if gone:
                await_gone(peer, entry, timeout)
        elif entry["state"] == "failed":
            peer.scheduler.deleteNodeRequest(request_id)
    except Exception as e:
        entry["error"] = "%s: %s" % (type(e).__name__, e)
    return entry


def hold(peer, entry, use, tenant, project):
    nodes = peer.accept(entry["request"]).getNodes()
    entry["held"] = time.time()
    entry["nodes"] = [
        {"id": n.id, "provider": n.provider, "type": n.type, "external_id": getattr(n, "external_id", None),
         "hostname": getattr(n, "hostname", None), "interface_ip": n.interface_ip, "slot": n.slot} for n in nodes]
    peer.use(entry["request"], tenant, project)
    time.sleep(use)
    entry["returned"] = time.time()  # before the unlock: the next user may have the nodes immediately afterwards
    peer.give_back(entry["request"], tenant, project)


def await_gone(peer, entry, timeout):
    for node in entry["nodes"]:
        peer.wait_until("/nodepool/nodes/" + node["id"], lambda data: data is None, timeout)
    entry["gone"] = time.time() - entry["returned"]
