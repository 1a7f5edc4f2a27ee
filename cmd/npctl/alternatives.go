package main

// alternatives maps commands of Terraform, OpenTofu and Nodepool that npctl does not have to the npctl equivalent. The
// key of a subcommand is its full path, such as "state identities".
var alternatives = map[string]string{
	"get":       "a module block names a local directory, such as a git submodule, so there is nothing to download (docs/modules.md)",
	"login":     "npctl logs in to clouds with clouds.yaml and OS_* variables, and to npctl watch with NPCTL_SOCKET and NPCTL_TOKEN",
	"metadata":  "npctl docs prints the reference of the language with its functions",
	"refresh":   "npctl plan -refresh-only shows how the state differs from the clouds, npctl apply -refresh-only brings it in line",
	"taint":     "npctl apply -replace=ADDRESS replaces one object",
	"untaint":   "nothing stays marked for replacement: plan without -replace",
	"workspace": "use one directory for each environment, or -var-file and -state",

	"state replace-provider": "a node belongs to the provider that launched it; a moved block or npctl state mv renames a provider",
	"state identities":       "npctl state list lists the addresses, npctl state show has the ids of the clouds",

	"list":             "npctl node list",
	"hold":             "npctl node hold",
	"delete":           "npctl node delete",
	"info":             "npctl state list -long provider.NAME lists the nodes and uploads of a provider; npctl status shows all providers",
	"erase":            "npctl destroy -target=provider.NAME deletes it all, npctl state rm provider.NAME only forgets it, also records of Nodepool in ZooKeeper",
	"request-list":     "npctl request list",
	"image-list":       "npctl image list",
	"dib-image-list":   "npctl image list",
	"image-build":      "npctl image build",
	"image-delete":     "npctl image delete -upload=ID",
	"image-pause":      "npctl image pause",
	"image-unpause":    "npctl image unpause",
	"image-status":     "npctl image show",
	"alien-image-list": "npctl unmanaged lists servers, images and more without a record, with their owners",
	"config-validate":  "npctl validate",
}

// alternativeNames maps further names of these commands to the key in alternatives.
var alternativeNames = map[string]string{"env": "workspace", "logout": "login", "modules": "get", "dib-image-delete": "image-delete"}

// alternativeOptions maps options of the same tools to the npctl equivalent, by command.
var alternativeOptions = map[string]map[string]string{
	"init": {
		"upgrade": "drivers are built in: install another npctl", "reconfigure": stateBlockHint, "backend-config": stateBlockHint,
		"migrate-state": "npctl state migrate moves a state",
	},
	"apply":   {"lock": lockHint, "backup": backupHint, "state-out": backupHint},
	"destroy": {"lock": lockHint, "backup": backupHint, "force": "give -auto-approve"},
}

const (
	lockHint       = "npctl changes nothing without the lock; -lock-timeout=DURATION waits for it"
	backupHint     = "npctl state pull > FILE saves a copy of the state"
	stateBlockHint = "the state block of the configuration says where the state is"
)

// alternativeHint returns the npctl equivalent of a command that npctl does not have, or "".
func alternativeHint(command string) string {
	if other, ok := alternativeNames[command]; ok {
		command = other
	}
	return alternatives[command]
}
