"""Users, projects, roles, the catalog and an application credential."""
import os

import openstack

ENV = os.environ
SERVICES = {  # user and service name: catalog type, address
    'glance': ('image', ENV['URL_GLANCE']),
    'nova': ('compute', ENV['URL_NOVA']),
    'placement': ('placement', ENV['URL_PLACEMENT']),
    'neutron': ('network', ENV['URL_NEUTRON']),
    'cinder': ('volumev3', ENV['URL_CINDER']),
}
MEMBERS = ('npctl', 'other')  # each is a user with its own project


def fill():
    identity = connect('admin', 'admin').identity
    catalog(identity)
    people(identity)
    application_credential()


def connect(user, project):
    return openstack.connect(
        region_name=ENV['REGION'],
        auth=dict(auth_url=ENV['AUTH_URL'], username=user, password=ENV['PASSWORD'],
                  project_name=project, user_domain_name='Default',
                  project_domain_name='Default'))


def catalog(identity):
    services = {s.name: s for s in identity.services()}
    known = {(e.service_id, e.interface) for e in identity.endpoints()}
    for name, (kind, url) in SERVICES.items():
        service = services.get(name) or identity.create_service(name=name, type=kind)
        for interface in ('public', 'internal', 'admin'):
            if (service.id, interface) not in known:
                identity.create_endpoint(service_id=service.id, interface=interface,
                                         url=url, region_id=ENV['REGION'])


def people(identity):
    roles = {r.name: r for r in identity.roles()}
    roles.setdefault('service', None)
    roles['service'] = roles['service'] or identity.create_role(name='service')
    projects = {p.name: p for p in identity.projects()}
    users = {u.name: u for u in identity.users()}
    for name in ('service',) + MEMBERS:
        if name not in projects:
            projects[name] = identity.create_project(name=name, domain_id='default')
    wanted = [(name, 'service', ('admin', 'service')) for name in SERVICES]
    wanted += [(name, name, ('member',)) for name in MEMBERS]
    for name, project, granted in wanted:
        user = users.get(name) or identity.create_user(
            name=name, password=ENV['PASSWORD'], domain_id='default',
            default_project_id=projects[project].id)
        for role in granted:
            identity.assign_project_role_to_user(projects[project], user, roles[role])


def application_credential():
    """Creates it as user npctl, because no other user may. Its ID is in clouds.yaml."""
    c = connect('npctl', 'npctl')
    found = c.identity.find_application_credential(c.current_user_id, 'ci')
    found = found or c.identity.create_application_credential(
        c.current_user_id, 'ci', secret=ENV['PASSWORD'])
    with open(os.path.join(ENV['WORK'], 'appcred.id'), 'w') as f:
        f.write(found.id + '\n')
