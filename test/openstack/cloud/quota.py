"""Sets the quotas of a project in compute, network and block storage."""
import sys

import openstack

# name in our command line: service, name in its API
COMPUTE = ('instances', 'cores', 'ram')
NETWORK = {'ports': 'port', 'floatingips': 'floatingip', 'networks': 'network'}
VOLUME = ('volumes', 'gigabytes')
USAGE = 'usage: quota.sh PROJECT reset | PROJECT NAME=VALUE…; NAME: %s' % (
    ', '.join(COMPUTE + tuple(NETWORK) + VOLUME))


def run(project=None, *changes):
    if not project or not changes:
        sys.exit(USAGE)
    admin = openstack.connect(cloud='admin')
    found = admin.identity.find_project(project)
    if not found:
        sys.exit('no project %s' % project)
    if changes == ('reset',):
        reset(admin, found.id)
    else:
        change(admin, found.id, parse(changes))


def parse(changes):
    wanted = {}
    for text in changes:
        name, _, value = text.partition('=')
        try:
            wanted[name] = int(value)
        except ValueError:
            sys.exit('%s: not a number\n%s' % (text, USAGE))
        if name not in COMPUTE + tuple(NETWORK) + VOLUME:
            sys.exit('%s: no such quota\n%s' % (name, USAGE))
    return wanted


def change(admin, project, wanted):
    compute = {n: v for n, v in wanted.items() if n in COMPUTE}
    network = {NETWORK[n]: v for n, v in wanted.items() if n in NETWORK}
    volume = {n: v for n, v in wanted.items() if n in VOLUME}
    if compute:  # force: a test may set a quota below the current use
        put(admin.compute, '/os-quota-sets/' + project,
            {'quota_set': dict(compute, force=True)})
    if network:
        put(admin.network, '/quotas/' + project, {'quota': network})
    if volume:
        put(admin.block_storage, '/os-quota-sets/' + project, {'quota_set': volume})


def reset(admin, project):
    for api, path in ((admin.compute, '/os-quota-sets/'), (admin.network, '/quotas/'),
                      (admin.block_storage, '/os-quota-sets/')):
        check(api.delete(path + project), allow=(404,))


def put(api, path, body):
    check(api.put(path, json=body))


def check(answer, allow=()):
    if answer.status_code >= 400 and answer.status_code not in allow:
        sys.exit('%s: %s' % (answer.url, answer.text))
