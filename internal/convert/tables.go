package convert

import (
	"cmp"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// The anchors of docs/coming-from-nodepool.md. Those of drivers are in their tables.
const (
	toGlobal   = "global"
	toImages   = "disk-images"
	toEvery    = "every-provider-and-pool"
	toBehavior = "differences-in-behavior"
	toLabels   = "labels"
)

// driverTables are the tables of a driver.
type driverTables struct {
	schema.Nodepool
	provider, pool, label, node  table
	image, cloudImage            table
	ofPools                      table // keys of a provider for pools
	imageOfLabels, cloudOfLabels table // keys of images for labels
}

// tablesOf returns the tables of a driver, with the keys that all drivers have.
func tablesOf(d schema.Driver) driverTables {
	n := *d.Nodepool
	pool, label := []schema.Block{d.Pool, poolBlock}, []schema.Block{d.Pool, d.Label} // only the pool has the defaults
	return driverTables{
		Nodepool:      n,
		provider:      newTable(n.Guide, append(keysFor("", n.Provider), priorityOfPools), d.Provider, providerBlock),
		ofPools:       newTable(n.Guide, keysFor("pool", n.Provider), pool...),
		pool:          newTable(n.Guide, append(slices.Clone(n.Pool), priority, nodeAttributes), pool...),
		label:         newTable(n.Guide, n.Label, label...),
		node:          newTable(n.Guide, n.Node, d.Node, nodeBlock),
		image:         newTable(n.Guide, keysFor("", n.Image), d.Image, imageBlock),
		imageOfLabels: newTable(n.Guide, keysFor("label", n.Image), label...),
		cloudImage:    newTable(n.Guide, keysFor("", n.CloudImage), d.CloudImage, cloudImageBlock),
		cloudOfLabels: newTable(n.Guide, keysFor("label", n.CloudImage), label...),
	}
}

var (
	priorityOfPools = schema.NodepoolKey{Key: "priority", Attr: "priority", Default: "100", Guide: toEvery}
	priority        = schema.NodepoolKey{Key: "priority", Attr: "priority", Guide: toEvery}
	nodeAttributes  = schema.NodepoolKey{Key: "node-attributes", Attr: "node_attributes", Guide: toEvery}
)

// offerTables are the tables with the attributes of a label, in the order in which they count.
func (d driverTables) offerTables() []table {
	return []table{d.label, d.imageOfLabels, d.imageOfLabels, d.cloudOfLabels, d.pool, d.ofPools}
}

// ofOffers returns the attributes of a label, which include those of its pool.
func (d driverTables) ofOffers() []string {
	return slices.DeleteFunc(compared(d.offerTables()...), func(name string) bool { return !d.label.has(name) })
}

// ownOfPools returns the attributes of a pool that are none of its labels.
func (d driverTables) ownOfPools() []string {
	return slices.DeleteFunc(compared(d.pool, d.ofPools), d.label.has)
}

// ofMachines returns the attributes of a static node that are no part of its identity.
func ofMachines(tab table) []string {
	return slices.DeleteFunc(compared(tab), func(name string) bool { return name == "username" || name == "connection_port" })
}

// keysFor returns the keys of a table for one kind of block.
func keysFor(block string, keys []schema.NodepoolKey) []schema.NodepoolKey {
	var own []schema.NodepoolKey
	for _, k := range keys {
		if k.For != block {
			continue
		}
		switch block {
		case "pool":
			k.Note = cmp.Or(k.Note, "an attribute of each pool")
		case "label":
			k.Note = cmp.Or(k.Note, k.Attr+" of the labels that use the image")
		}
		own = append(own, k)
	}
	return own
}

// The blocks of the language. The tags of their structs have the defaults, but for those of logins and of rebuild_age, which depend on
// the block and are in config.
var (
	providerBlock   = schema.Of[resources.Provider]("", nil)
	poolBlock       = schema.Of[resources.Pool]("", nil)
	imageBlock      = withDefaults(schema.Of[resources.ProviderImage]("", nil), login)
	cloudImageBlock = withDefaults(schema.Of[resources.CloudImageSpec]("", nil), login)
	nodeBlock       = withDefaults(schema.Of[resources.StaticNode]("", nil), login, map[string]string{"username": "zuul"})
	diskimageBlock  = withDefaults(schema.Of[resources.Image]("", nil), login, map[string]string{"username": "zuul", "rebuild_age": "24h"})
)

var login = map[string]string{"python_path": "auto", "connection_type": "ssh"}

func withDefaults(b schema.Block, all ...map[string]string) schema.Block {
	for _, defaults := range all {
		for name, text := range defaults {
			b.Find(name).Default = cty.StringVal(text)
		}
	}
	return b
}

// The keys of the language.
var (
	settingsTable = newTable(toGlobal, []schema.NodepoolKey{
		{Key: "images-dir", Attr: "images_dir"},
		{Key: "build-log-dir", Attr: "build_log_dir", Default: "/var/log/nodepool/builds"},
		{Key: "build-log-retention", Attr: "build_log_retention", Default: "7"},
		{Key: "max-hold-age", Attr: "max_hold_age", Default: "0"},
	}, schema.Of[resources.Settings]("", nil))
	tenantTable = newTable(toGlobal, schema.SameNodepoolKeys("max-servers", "max-cores", "max-ram", "max-volumes", "max-volume-gb"), schema.Of[resources.TenantLimit]("", nil))
	tlsTable    = newTable(toGlobal, schema.SameNodepoolKeys("cert", "key", "ca"), schema.Of[resources.TLS]("", nil))
	labelTable  = newTable(toLabels, []schema.NodepoolKey{{Key: "max-ready-age", Attr: "max_ready_age", Default: "0"}}, schema.Of[resources.Label]("", nil))
	imageTable  = newTable(toImages, []schema.NodepoolKey{
		{Key: "formats", Attr: "formats"},
		{Key: "keep-formats", Attr: "keep_formats"},
		{Key: "rebuild-age", Attr: "rebuild_age", Default: "86400"},
		{Key: "build-timeout", Attr: "build_timeout", Default: "28800"},
		{Key: "pause", Attr: "pause", Default: "false"},
		{Key: "delete-after-upload", Attr: "delete_after_upload", Default: "false"},
		{Key: "username", Attr: "username", Default: "zuul"},
		{Key: "python-path", Attr: "python_path", Default: "auto"},
		{Key: "shell-type", Attr: "shell_type"},
		{Key: "metadata", Attr: "properties", Changed: true, Note: "images with this parent inherit the properties; in Nodepool they do not", Guide: toBehavior},
	}, diskimageBlock)
	dibTable = newTable(toImages, []schema.NodepoolKey{
		{Key: "elements", Attr: "elements"},
		{Key: "release", Attr: "release"},
		{Key: "env-vars", Attr: "env"},
		{Key: "dib-cmd", Attr: "command", Default: "disk-image-create"},
	}, schema.Block{Attributes: []schema.Attribute{
		{Name: "elements", Type: cty.List(cty.String)}, {Name: "release", Type: cty.String}, {Name: "env", Type: cty.Map(cty.String)},
		{Name: "command", Type: cty.String, Default: cty.StringVal("disk-image-create")},
	}})
	// uploadTable are the keys of a diskimage that a provider may override for its uploads.
	uploadTable = imageTable.only("username", "python_path", "shell_type", "properties")
)
