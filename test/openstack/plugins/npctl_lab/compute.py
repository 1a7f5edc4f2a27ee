"""A hypervisor with servers in memory and configurable faults."""
import io
import os

import eventlet
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states
from nova.image import glance
from nova.network import model
from nova.network import neutron
from nova.virt import fake

from npctl_lab import faults

# The size of a snapshot.
DISK_BYTES = 1 << 20

# Servers with hidden addresses, by UUID.
_hidden = set()


class Driver(fake.FakeDriver):
    vcpus = int(os.environ['NPCTL_LAB_VCPUS'])
    memory_mb = int(os.environ['NPCTL_LAB_MEMORY_MB'])
    local_gb = int(os.environ['NPCTL_LAB_DISK_GB'])

    def spawn(self, context, instance, *args, **kwargs):
        _apply('spawn', instance)
        super().spawn(context, instance, *args, **kwargs)
        rule = faults.take('address', **_subject(instance))
        if rule is not None:
            _hide_addresses(context, instance.uuid, rule)

    def destroy(self, context, instance, *args, **kwargs):
        _apply('destroy', instance)
        super().destroy(context, instance, *args, **kwargs)

    def snapshot(self, context, instance, image_id, update_task_state):
        """Uploads a disk like the libvirt driver. It contains only the IDs of the server and its image."""
        update_task_state(task_state=task_states.IMAGE_PENDING_UPLOAD)
        _apply('snapshot', instance)
        update_task_state(task_state=task_states.IMAGE_UPLOADING,
                          expected_state=task_states.IMAGE_PENDING_UPLOAD)
        disk = 'snapshot of %s made from image %s\n' % (
            instance.uuid, instance.image_ref)
        images = glance.API()
        metadata = {
            'status': 'active', 'disk_format': 'raw', 'container_format': 'bare',
            'name': images.get(context, image_id)['name'],
            'properties': {'kernel_id': instance.kernel_id,
                           'image_location': 'snapshot', 'image_state': 'available',
                           'owner_id': instance.project_id,
                           'ramdisk_id': instance.ramdisk_id}}
        images.update(context, image_id, metadata,
                      io.BytesIO(disk.encode().ljust(DISK_BYTES, b'\0')),
                      purge_props=False)

    def get_console_output(self, context, instance):
        return '[    0.000000] Linux version 6.1.0 (npctl lab)\n%s login: \n' % (
            instance.display_name)


def delay_address_events(manager_class):
    """Delays addresses of neutron in nova."""
    handle = manager_class.external_instance_event

    def late(self, context, instances, events):
        # the addresses of a hidden server are read again later
        events = [e for e in events if not (
            e.name == 'network-changed' and e.instance_uuid in _hidden)]
        if any(e.name == 'network-changed' for e in events):
            for instance in instances:
                if instance.vm_state == vm_states.ACTIVE:
                    faults.apply('floating-ip', **_subject(instance))
        return handle(self, context, instances, events)

    manager_class.external_instance_event = late


def forget_other_allocations(client_class):
    """Makes the duration of a build independent of the number of servers.

    At every build nova requests the allocation of each server of the host from
    placement, one by one. Only a change of the inventory's structure needs the
    response, and the inventory of an emulated host never changes.
    """
    client_class.get_allocations_for_provider_tree = (
        lambda self, context, nodename: {})


def _apply(on, instance):
    try:
        faults.apply(on, **_subject(instance))
    except faults.Abort as e:
        raise exception.BuildAbortException(
            instance_uuid=instance.uuid, reason=str(e))
    except faults.Failure as e:
        raise exception.NovaException(str(e))


def _subject(instance):
    return {'name': instance.display_name, 'flavor': instance.flavor.name,
            'host': instance.host}


def _hide_addresses(context, uuid, rule):
    """The server becomes ACTIVE without addresses, and receives them later."""
    _hidden.add(uuid)
    cache = objects.InstanceInfoCache.get_by_instance_uuid(context, uuid)
    cache.network_info = model.NetworkInfo()
    cache.save()
    eventlet.spawn(_show_addresses, uuid, rule)


def _show_addresses(uuid, rule):
    faults.wait(rule)
    _hidden.discard(uuid)
    context = nova_context.get_admin_context()
    try:
        instance = objects.Instance.get_by_uuid(context, uuid, ['info_cache', 'flavor'])
        neutron.API().get_instance_nw_info(context, instance, force_refresh=True)
    except exception.NotFound:
        pass  # deleted in the meantime
