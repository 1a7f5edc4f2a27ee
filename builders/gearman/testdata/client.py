"""A client of the original protocol, on the library that the original used.

    client.py HOST PORT FUNCTION DATA

Submits one job in the foreground and prints what became of it as JSON.
"""
import json
import sys
import time
import uuid

import gear

host, port, function, data = sys.argv[1:]
client = gear.Client('nodepool')
client.addServer(host, int(port))
client.waitForServer()
job = gear.Job(function.encode(), data.encode(), unique=uuid.uuid4().hex.encode())
client.submitJob(job, timeout=300)
deadline = time.time() + 60
while not job.complete:
    if time.time() > deadline:
        sys.exit('the job does not end')
    time.sleep(0.01)
print(json.dumps({
    'failure': job.failure,
    'exception': job.exception.decode() if job.exception else None,
    'data': [piece.decode() for piece in job.data],
}))
client.shutdown()
