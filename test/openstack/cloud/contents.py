"""Flavors, images, networks, keys and zones: the content of the cloud."""
import os
import subprocess
import time
from concurrent import futures

import openstack

FLAVORS = (  # name, cores, MiB of memory, GiB of disk
    ('small', 1, 2048, 20),
    ('medium', 2, 4096, 40),
    ('large', 8, 8192, 80),
    ('toobig', 8, 8192, 10 ** 7),  # within every quota, on no host
)

# In the order of creation: the last of two similar images is the newer one.
UBUNTU = dict(os_distro='ubuntu', os_version='24.04', vendor='acme')
IMAGES = (  # name, owner, visibility, properties, tags
    ('tiny', 'admin', 'public', dict(os_distro='debian'), []),
    ('vendor-jammy-20260301', 'admin', 'public', dict(UBUNTU, os_version='22.04'), ['lts']),
    ('vendor-noble-20260101', 'admin', 'public', UBUNTU, ['lts']),
    ('vendor-noble-20260201', 'admin', 'public', UBUNTU, ['lts', 'current']),
    ('vendor-noble-20260202', 'admin', 'public', dict(UBUNTU, stage='testing'), []),
    ('twice', 'admin', 'public', dict(edition='first'), []),
    ('twice', 'admin', 'public', dict(edition='second'), []),
    ('withdrawn', 'admin', 'public', {}, []),  # deactivated below
    ('other-private', 'other', 'private', {}, []),
    ('other-community', 'other', 'community', {}, []),
)

# All of 127.0.0.0/8 is this machine: a program that listens on the address of a
# server (or on 0.0.0.0) answers for it. neutron permits it while DHCP is off.
PRIVATE, PUBLIC, SHARED, DUAL = ('127.77.0.0/16', '127.78.0.0/16', '127.79.0.0/16',
                                 '127.80.0.0/16')
DUAL6 = 'fd77::/64'
OPEN_PORTS = (22, 19885)  # of security group "ssh"
ZONES = {'compute1': 'az1', 'compute2': 'az2'}


def fill():
    admin = openstack.connect(cloud='admin')
    other = openstack.connect(cloud='other')
    with futures.ThreadPoolExecutor() as aside:
        made = aside.submit(images, {'admin': admin, 'other': other})  # mostly waits
        # separate connections: those above are in use
        admin, npctl = openstack.connect(cloud='admin'), openstack.connect(cloud='npctl')
        flavors(admin)
        networks(admin, npctl)
        access(npctl)
        volume_type(admin)
        zones(admin)
        made.result()


def flavors(admin):
    known = {f.name for f in admin.compute.flavors()}
    for name, vcpus, ram, disk in FLAVORS:
        if name not in known:
            admin.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)


def images(clouds):
    content = os.path.join(os.environ['WORK'], 'tiny.qcow2')
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', content, '16M'], check=True)
    known = [i.name for i in clouds['admin'].image.images()]
    known += [i.name for i in clouds['other'].image.images()]
    for name, owner, visibility, properties, tags in IMAGES:
        if name in known:
            known.remove(name)
            continue
        image = clouds[owner].image.create_image(
            name, filename=content, disk_format='qcow2', container_format='bare',
            visibility=visibility, tags=tags, wait=True, allow_duplicates=True,
            **properties)
        if name == 'withdrawn':
            clouds[owner].image.deactivate_image(image)
        time.sleep(1 - time.time() % 1)  # Glance stores times in seconds: the next image is newer


def networks(admin, npctl):
    known = {n.name for n in admin.network.networks()}
    if 'public' not in known:
        network(admin, 'public', PUBLIC, is_router_external=True,
                provider_network_type='flat', provider_physical_network='outside')
    if 'private' not in known:
        _, subnet = network(npctl, 'private', PRIVATE)
        public = npctl.network.find_network('public')
        router = npctl.network.create_router(
            name='router', external_gateway_info={'network_id': public.id})
        npctl.network.add_interface_to_router(router, subnet_id=subnet.id)
    if 'shared' not in known:
        network(admin, 'shared', SHARED, is_shared=True)
    if 'dual' not in known:
        dual, _ = network(npctl, 'dual', DUAL)
        npctl.network.create_subnet(
            name='dual6', network_id=dual.id, ip_version=6, cidr=DUAL6,
            ipv6_ra_mode='slaac', ipv6_address_mode='slaac')


def network(cloud, name, cidr, **options):
    made = cloud.network.create_network(name=name, **options)
    subnet = cloud.network.create_subnet(name=name, network_id=made.id, ip_version=4,
                                         cidr=cidr, is_dhcp_enabled=False)
    return made, subnet


def access(npctl):
    if not npctl.compute.find_keypair('lab'):
        key = npctl.compute.create_keypair(name='lab')
        path = os.path.join(os.environ['WORK'], 'id_lab')
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
            f.write(key.private_key)
    mine = npctl.network.security_groups(project_id=npctl.current_project_id)
    if 'ssh' not in {g.name for g in mine}:
        group = npctl.network.create_security_group(name='ssh')
        for port in OPEN_PORTS:
            npctl.network.create_security_group_rule(
                security_group_id=group.id, direction='ingress', ethertype='IPv4',
                protocol='tcp', port_range_min=port, port_range_max=port)


def volume_type(admin):
    if 'pretended' not in {t.name for t in admin.block_storage.types()}:
        admin.block_storage.create_type(
            name='pretended', extra_specs={'volume_backend_name': 'pretended'})


def zones(admin):
    known = {a.name: a for a in admin.compute.aggregates()}
    for host, zone in ZONES.items():
        group = known.get(zone) or admin.compute.create_aggregate(
            name=zone, availability_zone=zone)
        if host not in (group.hosts or []):
            admin.compute.add_host_to_aggregate(group, host)
