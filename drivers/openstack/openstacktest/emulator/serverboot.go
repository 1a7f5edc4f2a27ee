package emulator

import (
	"net/http"
)

// bootVolume is the root volume of a server that boots from one.
type bootVolume struct {
	volume *volume // an existing volume; nil if it must be created
	image  *image  // source of a new volume
	size   int64
	delete bool
}

func (b *bootVolume) imageID() string {
	if b.image == nil {
		return ""
	}
	return b.image.ID
}

// orderBoot parses block_device_mapping_v2. The image or volume with boot index 0 is the root; other block devices
// have no effect, because no machine runs.
func (o *order) selectBoot() error {
	for i := range o.in.Server.Blocks {
		b := &o.in.Server.Blocks[i]
		index, err := b.BootIndex.number(-1)
		if err != nil {
			return err
		}
		if index != 0 || (b.Source == "image" && b.Destination == "local") {
			continue
		}
		if o.boot, err = o.selectRoot(b); err != nil {
			return err
		}
	}
	if o.image == nil && o.boot == nil {
		return badRequest("Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is not valid.")
	}
	if o.boot != nil && o.image == nil {
		o.image = o.boot.image
	}
	return nil
}

func (o *order) selectRoot(b *blockRequest) (*bootVolume, error) {
	boot := &bootVolume{delete: truthy(b.Delete)}
	var err error
	if boot.size, err = b.Size.number(0); err != nil {
		return nil, err
	}
	switch {
	case b.Source == "volume":
		v, found := o.w.Volumes.get(b.UUID, o.now)
		if !found || !o.owns(&v.base) {
			return nil, badRequest("Block Device Mapping is Invalid: failed to get volume %s.", b.UUID)
		}
		if v.Status != "available" {
			return nil, badRequest("Invalid volume: Volume %s status must be available. Currently in %s", v.ID, v.Status)
		}
		if !v.Bootable {
			return nil, badRequest("Block Device %s is not bootable.", v.ID)
		}
		boot.volume = v
		return boot, nil
	case b.Source == "image" && b.Destination == "volume":
		if boot.image, err = o.bootable(b.UUID, o.flavor, false); err != nil {
			return nil, err
		}
		return boot, o.checkBootVolume(boot)
	}
	return nil, badRequest("Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is not valid.")
}

// checkBootVolume rejects a server with a boot volume that is too small or exceeds the quota. The real compute
// accepts such a server and lets it fail later; both report the fault.
func (o *order) checkBootVolume(boot *bootVolume) error {
	if boot.size == 0 {
		return badRequest("Block Device Mapping is Invalid: Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size")
	}
	if boot.size < boot.image.MinDisk || (boot.image.Size != nil && boot.size<<30 < *boot.image.Size) {
		return badRequest("Volume is smaller than the minimum size specified in image metadata. Volume size is %d bytes, minimum size is %d bytes.",
			boot.size<<30, max(boot.image.MinDisk<<30, *boot.image.Size))
	}
	if err := checkVolumeQuota(o.w, o.who.project, o.max, o.max*boot.size); err != nil {
		return refuse(http.StatusForbidden, "Volume resource quota exceeded")
	}
	return nil
}
