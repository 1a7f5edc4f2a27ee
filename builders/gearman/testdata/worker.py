"""A build worker of the original protocol, on the library that the original used.

    worker.py HOST PORT IMAGE

Offers image-build:IMAGE, and upload and delete of what it has made; prints the functions it has done. A build whose id
begins with "fail" is a WORK_FAIL, with "raise" a WORK_EXCEPTION.
"""
import json
import sys

import gear

host, port, image = sys.argv[1:]
worker = gear.TextWorker('Nodepool Builder Build Worker 1')
worker.addServer(host, int(port))
worker.waitForServer()
worker.registerFunction('image-build:' + image)
print('ready', flush=True)

while True:
    job = worker.getJob()
    what, name = job.name.split(':', 1)
    print(job.name, job.arguments, flush=True)
    if what == 'image-build':
        image_id = json.loads(job.arguments)['image-id']
        if image_id.startswith('fail'):
            job.sendWorkFail()
            continue
        if image_id.startswith('raise'):
            job.sendWorkException('Traceback: no such element')
            continue
        worker.registerFunction('image-upload:' + image_id)
        worker.registerFunction('image-delete:' + image_id)
        job.sendWorkComplete(json.dumps({'image-id': image_id}))
    elif what == 'image-upload':
        arguments = json.loads(job.arguments)
        job.sendWorkComplete(json.dumps({'external-id': arguments['provider'] + '/' + arguments['image-name']}))
    else:
        # The original took the functions back first; gearmand then drops the result.
        job.sendWorkComplete()
        worker.unRegisterFunction('image-upload:' + name)
        worker.unRegisterFunction('image-delete:' + name)
