"""Waits until every worker has reported since its start.

"up" alone means "has reported within the last minute": after a restart this
may be the report of the previous process, and a server created then ends in ERROR.
"""
import datetime
import os
import sys
import time

import openstack

LIMIT = 300  # seconds
RUN = os.path.join(os.environ['WORK'], 'run')
NOVA = {('nova-conductor', 'controller'): 'nova-conductor',
        ('nova-scheduler', 'controller'): 'nova-scheduler',
        ('nova-compute', 'compute1'): 'nova-compute1',
        ('nova-compute', 'compute2'): 'nova-compute2'}
CINDER = {('cinder-scheduler', 'volumes'): 'cinder-scheduler',
          ('cinder-volume', 'volumes@pretended'): 'cinder-volume'}


def wait():
    admin = openstack.connect(cloud='admin')
    end = time.time() + LIMIT
    while True:
        silent = silent_workers(admin)
        if not silent:
            return
        if time.time() > end:
            sys.exit('no report after %d s from: %s; see their logs' % (
                LIMIT, ', '.join(sorted(silent))))
        time.sleep(0.3)


def silent_workers(admin):
    silent = set()
    for api, workers in ((admin.compute, NOVA), (admin.block_storage, CINDER)):
        path = '/os-services'
        reports = {(s['binary'], s['host']): s
                   for s in api.get(path).json()['services']}
        silent |= {process for worker, process in workers.items()
                   if not fresh(reports.get(worker), process)}
    hosts = admin.compute.get('/os-hypervisors').json()['hypervisors']
    if len(hosts) < 2:
        silent.add('nova-compute (hypervisors)')
    return silent


def fresh(report, process):
    if not report or report['state'] != 'up' or not report['updated_at']:
        return False
    started = os.path.getmtime(os.path.join(RUN, process + '.pid'))
    said = datetime.datetime.fromisoformat(report['updated_at'])
    return said.replace(tzinfo=datetime.timezone.utc).timestamp() > started
