"""Volumes without content and with configurable faults."""
from cinder import exception
from cinder.tests import fake_driver

from npctl_lab import faults


class Driver(fake_driver.FakeLoggingVolumeDriver):

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # the scheduler compares it with the volume type
        self.backend_name = self.configuration.safe_get('volume_backend_name')

    def _update_volume_stats(self):
        super()._update_volume_stats()
        for pool in self._stats['pools']:
            pool.update(total_capacity_gb='infinite', free_capacity_gb='infinite')

    def create_volume(self, volume):
        _apply('volume-create', volume)
        return super().create_volume(volume)

    def clone_image(self, context, volume, image_location, image_meta,
                    image_service):
        # "cloned": so that no image is downloaded and written to a disk
        _apply('volume-create', volume)
        return {'provider_location': None}, True

    def delete_volume(self, volume):
        _apply('volume-delete', volume)
        return super().delete_volume(volume)


def _apply(on, volume):
    try:
        faults.apply(on, name=volume.display_name)
    except faults.Failure as e:
        raise exception.VolumeBackendAPIException(data=str(e))
