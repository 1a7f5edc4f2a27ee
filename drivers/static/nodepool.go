package static

import "github.com/npctl/npctl/resources/schema"

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	return &schema.Nodepool{
		Guide: "static-nodes",
		Node: []schema.NodepoolKey{
			{Key: "labels", Attr: "labels", Form: schema.AsLabels},
			{Key: "username", Attr: "username", Default: "zuul"},
			{Key: "timeout", Attr: "timeout", Default: "5"},
			{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
			{Key: "host-key", Attr: "host_keys"},
			{Key: "connection-type", Attr: "connection_type", Default: "ssh"},
			{Key: "connection-port", Attr: "connection_port"},
			{Key: "ssh-port", Attr: "connection_port", Note: "the old name of connection-port"},
			{Key: "shell-type", Attr: "shell_type"},
			{Key: "python-path", Attr: "python_path", Default: "auto"},
			{Key: "max-parallel-jobs", Attr: "slots", Default: "1"},
		},
	}
}
