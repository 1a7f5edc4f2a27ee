"""One Zuul, as far as ZooKeeper is concerned: the classes of the scheduler and the executor, controlled by calls.

The threads of the scheduler (caches, election, events) run here too. The work for jobs (find a change, run Ansible) does
not: the caller determines the start and the end of a build.
"""

import threading
import time
import uuid
from types import SimpleNamespace

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KazooState
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from zuul import model, nodepool
from zuul.zk import ZooKeeperClient
from zuul.zk.nodepool import NodeRequestEvent
from zuul.zk.system import ZuulSystem

# With a provider, spans have 128-bit IDs, as in the requests of a Zuul with tracing.
trace.set_tracer_provider(TracerProvider())


class Scheduler(nodepool.Nodepool):
    """Handles ended requests like Zuul, and then notifies the waiting callers."""

    def __init__(self, *args):
        self.news = threading.Condition()
        self.ended = {}  # request id: state, or "deleted"
        super().__init__(*args, scheduler=True)

    def _sendNodesProvisionedEvent(self, request):
        super()._sendNodesProvisionedEvent(request)
        self._tell(request.id, request.state)

    def _handleNodeRequestEvent(self, request, event):
        super()._handleNodeRequestEvent(request, event)
        if event == NodeRequestEvent.DELETED:
            self._tell(request.id, "deleted")

    def _tell(self, request_id, state):
        with self.news:
            self.ended[request_id] = state
            self.news.notify_all()

    def wait(self, request_id, timeout):
        with self.news:
            if not self.news.wait_for(lambda: request_id in self.ended, timeout):
                raise TimeoutError("request %s has not ended within %s s" % (request_id, timeout))
            return self.ended.pop(request_id)


class Peer:
    def __init__(self, hosts, cert, key, ca, timeout, system=None):
        self.tls = dict(tls_cert=cert, tls_key=key, tls_ca=ca)
        self.hosts, self.timeout = hosts, timeout
        self.zk = ZooKeeperClient(hosts, timeout=timeout, **self.tls)
        self.zk.connect()
        self.system = system or ZuulSystem(self.zk).system_id
        self.scheduler = Scheduler(self.zk, self.system, None)
        self.scheduler.zk_nodepool.register()
        self.executor = nodepool.Nodepool(self.zk, self.system, None)
        self.builds = {}  # request id: nodeset, from acceptance until the nodes are returned

    @property
    def client(self):
        return self.zk.client

    def stop(self):
        self.scheduler.stop()
        self.executor.stop()
        self.zk.disconnect()

    # Actions of the scheduler.

    def request(self, labels, priority, relative_priority, provider, tenant, pipeline, job):
        nodeset = model.NodeSet("nodes")
        for i, label in enumerate(labels):
            nodeset.addNode(model.Node(["node-%d" % i], label))
        wanted = SimpleNamespace(nodeset=nodeset, uuid=uuid.uuid4().hex, name=job)
        event = SimpleNamespace(zuul_event_id=uuid.uuid4().hex)
        return self.scheduler.requestNodes(
            uuid.uuid4().hex, wanted, tenant, pipeline, provider, priority, relative_priority, event)

    def find(self, request_id):
        request = self.scheduler.zk_nodepool.getNodeRequest(request_id, cached=True)
        if request is None:
            raise LookupError("request %s does not exist" % request_id)
        return request

    def hold_later(self, reason, expiration, tenant, project, job):
        hold = model.HoldRequest()
        hold.tenant, hold.project, hold.job, hold.ref_filter = tenant, project, job, ".*"
        hold.reason, hold.node_expiration = reason, expiration
        self.scheduler.zk_nodepool.storeHoldRequest(hold)
        return hold

    def end_hold(self, hold_id):
        hold = self.scheduler.zk_nodepool.getHoldRequest(hold_id)
        if hold is None:
            raise LookupError("hold request %s does not exist" % hold_id)
        self.scheduler.zk_nodepool.deleteHoldRequest(hold)
        if self.scheduler.zk_nodepool.getHoldRequest(hold_id):
            raise RuntimeError("hold request %s could not be ended: its nodes are locked" % hold_id)

    # Actions of an executor, which knows only the ID of the request.

    def accept(self, request_id):
        request = self.executor.zk_nodepool.getNodeRequest(request_id)
        if request is None:
            raise LookupError("request %s does not exist" % request_id)
        nodeset = model.NodeSet("nodes")
        for i, label in enumerate(request.labels):
            nodeset.addNode(model.Node(["node-%d" % i], label))
        self.executor.acceptNodes(request, nodeset)
        self.builds[request_id] = nodeset
        return nodeset

    def use(self, request_id, tenant, project):
        self.executor.useNodeSet(self.builds[request_id], tenant, project)

    def give_back(self, request_id, tenant, project):
        self.executor.returnNodeSet(self.builds.pop(request_id), None, tenant, project, 1)

    def hold(self, request_id, hold_id):
        nodeset = self.builds.pop(request_id)
        hold = self.executor.zk_nodepool.getHoldRequest(hold_id)
        build = SimpleNamespace(uuid=uuid.uuid4().hex)
        self.executor.holdNodeSet(nodeset, hold, build, 1)
        self.executor.returnNodeSet(nodeset, build, hold.tenant, hold.project, 1)

    # Faults of the connection.

    def cut(self):
        """Closes the TCP connection: the session is suspended and soon active again."""
        self.client._connection._socket.shutdown(2)

    def expire(self):
        """Ends the session like a server after the session timeout: its locks are lost. Any connection may close the
        session, except just after the client has moved it to another connection; then a second attempt is needed."""
        lost = threading.Event()

        def listen(state):
            if state == KazooState.LOST:
                lost.set()
                return True  # and no more

        self.client.retry(self.client.exists, "/")
        self.client.add_listener(listen)
        for _ in range(10):
            other = type(self.client)(
                hosts=self.hosts, timeout=self.timeout, client_id=self.client.client_id, use_ssl=True,
                certfile=self.tls["tls_cert"], keyfile=self.tls["tls_key"], ca=self.tls["tls_ca"])
            other.start(10)
            other.stop()
            other.close()
            if lost.wait(2):
                return
        raise RuntimeError("the session does not end")

    def wait_until(self, path, good, timeout):
        """Waits until good(data) is true, with None for a missing znode, and returns the data."""
        deadline = time.monotonic() + timeout
        while True:
            changed = threading.Event()
            try:
                data, _ = self.client.get(path, watch=lambda _: changed.set())
            except NoNodeError:
                data = None
                if self.client.exists(path, watch=lambda _: changed.set()):
                    continue
            if good(data):
                return data
            if not changed.wait(deadline - time.monotonic()):
                raise TimeoutError("%s is %r after %s s" % (path, data, timeout))
