package qemu

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are virtual machines of QEMU on the host of npctl, with user networking and a cloud-init seed; images are " +
	"files. It needs no account and no root. Machines run on when npctl ends."

func driverSchema() schema.Driver {
	pool := schema.Of[poolSettings]("", map[string]schema.Check{"ssh_keys": checkKeys, "user": checkUser})
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", nil),
		Pool:           pool,
		Label:          schema.ForLabels[poolSettings](pool, nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Formats:        []string{formatQcow2, formatRaw},
	}
}

// The formats of images.
const (
	formatQcow2 = "qcow2"
	formatRaw   = "raw"
)

// providerSettings are the attributes of a provider.
type providerSettings struct {
	Dir          string `config:"dir,path" doc:"Directory of the machines and uploaded images, for one or several npctl processes of this host; the default is a directory of the provider beside the state. A relative path is inside that directory."`
	ImageDir     string `config:"image_dir,path" doc:"Directory of the files that 'cloud_image' blocks name without a path; the default is 'files' in 'dir'."`
	Program      string `config:"program,path" doc:"QEMU; the default is 'qemu-system-x86_64' or, on such a host, 'qemu-system-aarch64', from 'PATH'."`
	QemuImg      string `config:"qemu_img,path" default:"qemu-img" doc:"The program 'qemu-img', which creates the disks."`
	ImageFormat  string `config:"image_format" default:"qcow2" oneof:"qcow2 raw" doc:"Format of uploaded images."`
	MaxCores     int64  `config:"max_cores" min:"1" doc:"Cores of all machines together; the default is the number of cores of the host."`
	MaxRAM       int64  `config:"max_ram" min:"1" doc:"RAM of all machines together in MiB; the default is the memory of the host."`
	MaxInstances int64  `config:"max_instances" min:"1" doc:"Number of machines; unlimited by default."`
}

// poolSettings are the attributes of an offer; a pool may have them too.
type poolSettings struct {
	Cores     int64         `config:"cores,replacing" default:"1" min:"1" doc:"Cores of the machine."`
	RAM       int64         `config:"ram,replacing" default:"1024" min:"64" doc:"RAM of the machine in MiB."`
	Disk      int64         `config:"disk,replacing" min:"1" doc:"Size of the disk in GB, at least that of the image; the default is that of the image. The guest enlarges its file system, as cloud-init does."`
	Accel     string        `config:"accel,new" default:"auto" oneof:"auto kvm tcg" doc:"'kvm', or 'tcg' for slow emulation; 'auto' is 'kvm' if a short test of '/dev/kvm' succeeds."`
	Machine   string        `config:"machine,replacing" doc:"Machine type; the default is 'q35', on ARM 'virt'."`
	CPU       string        `config:"cpu,replacing" doc:"CPU model; the default is 'host' with KVM, else 'max'."`
	Firmware  string        `config:"firmware,replacing,path" doc:"File of the firmware, such as '/usr/share/ovmf/OVMF.fd' for UEFI; the default is that of QEMU: a BIOS, and nothing on ARM."`
	Args      []string      `config:"args,replacing" doc:"Further arguments for QEMU."`
	GuestPort int64         `config:"guest_port,replacing,port" default:"22" doc:"Port of the machine to which npctl forwards a port of 127.0.0.1, at which jobs connect."`
	User      string        `config:"user,replacing" doc:"User that cloud-init creates, with sudo, and by which jobs connect."`
	SSHKeys   []string      `config:"ssh_keys,replacing" doc:"SSH public keys of 'user', or of the default user of the image."`
	UserData  string        `config:"userdata,replacing,hashed" doc:"User data for cloud-init."`
	Reach     drivers.Reach `config:",inline"`
}

var userName = drivers.Pattern(`^[a-z_][a-z0-9_-]{0,31}$`)

func checkUser(v cty.Value) error {
	if !userName().MatchString(v.AsString()) {
		return fmt.Errorf("%q is not a name of a user; write up to 32 lower-case letters, digits, - and _", v.AsString())
	}
	return nil
}

func checkKeys(v cty.Value) error {
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || !e.IsKnown() {
			continue
		}
		switch key := e.AsString(); {
		case strings.Contains(key, "PRIVATE KEY"):
			return errors.New("this is a private key; write the public key, the content of the .pub file")
		case strings.ContainsAny(strings.TrimSpace(key), "\r\n") || len(strings.Fields(key)) < 2:
			return fmt.Errorf("%.20q… is not a public key; write one line such as ssh-ed25519 AAAA…", key)
		}
	}
	return nil
}

// offerOf reads the configuration of an offer.
func offerOf(config cty.Value) (o poolSettings, err error) {
	err = cloudkit.Decode(config, &o)
	return o, err
}
