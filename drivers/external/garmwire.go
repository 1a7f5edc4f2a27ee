package external

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/npctl/npctl/resources"
)

// garmDescription are the settings of every provider of GARM.
func garmDescription() description {
	return description{
		Protocols: []int{version}, Program: "GARM provider",
		Provider: []setting{{Name: "config_file", Required: true, Doc: "the configuration file of the provider (GARM_PROVIDER_CONFIG_FILE)"}},
		Label: []setting{
			{Name: "flavor", Required: true, Doc: "the flavor, as the provider names it"},
			{Name: "image", Required: true, Doc: "the image, as the provider names it"},
			{Name: "os_type", OneOf: []string{"linux", "windows"}, Doc: "default linux"},
			{Name: "arch", OneOf: []string{"amd64", "arm64", "i386", "arm"}, Doc: "default amd64"},
			{Name: "extra_specs", Doc: "a JSON object with settings of the provider, from jsonencode()"},
			{Name: "install_script", Doc: "runs in place of the installation of a GitHub runner; default is a script that does nothing"},
			{Name: "ssh_keys", Doc: "public keys, one per line"},
			{Name: "cores", Type: "number", Doc: "cores of the flavor, for limits"},
			{Name: "ram", Type: "number", Doc: "MiB of the flavor, for limits"},
			{Name: "username", Doc: "of jobs"},
			{Name: "connection_type", Doc: "of jobs; default ssh"},
			{Name: "connection_port", Type: "number", Doc: "of jobs"},
		},
	}
}

// garmBootstrap is the document on stdin of CreateInstance.
type garmBootstrap struct {
	Name        string          `json:"name"`
	Tools       []garmTool      `json:"tools"`
	RepoURL     string          `json:"repo_url"`
	CallbackURL string          `json:"callback-url"`
	MetadataURL string          `json:"metadata-url"`
	Token       string          `json:"instance-token"`
	SSHKeys     []string        `json:"ssh-keys"`
	ExtraSpecs  json.RawMessage `json:"extra_specs"`
	RunnerGroup string          `json:"github-runner-group"`
	CACerts     []byte          `json:"ca-cert-bundle"`
	Arch        string          `json:"arch"`
	OSType      string          `json:"os_type"`
	Flavor      string          `json:"flavor"`
	Image       string          `json:"image"`
	Labels      []string        `json:"labels"`
	PoolID      string          `json:"pool_id"`
	JIT         bool            `json:"jit_config_enabled"`
}

// garmTool is a download of the GitHub runner. Providers insist on one for the operating system of the instance.
type garmTool struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	DownloadURL  string `json:"download_url"`
	Filename     string `json:"filename"`
}

const (
	// nowhere is the host of URLs that instances without a GitHub runner do not use.
	nowhere       = "https://npctl.invalid/"
	doNothing     = "#!/bin/sh\nexit 0\n"
	installScript = "runner_install_template"
)

func (g *garm) bootstrap(name string, spec *specJSON) (garmBootstrap, error) {
	specs, err := extraSpecs(spec.Settings)
	params := garmBootstrap{
		Name: name, RepoURL: nowhere + "npctl/nodes", CallbackURL: nowhere, MetadataURL: nowhere, Token: "none", ExtraSpecs: specs,
		Arch: cmp.Or(spec.Settings["arch"], "amd64"), OSType: cmp.Or(spec.Settings["os_type"], "linux"), Flavor: spec.Settings["flavor"],
		Image: spec.Settings["image"], PoolID: g.pool, JIT: true,
	}
	if spec.Tags != nil {
		params.Labels = []string{spec.Tags.Label}
	}
	for line := range strings.Lines(spec.Settings["ssh_keys"]) {
		if key := strings.TrimSpace(line); key != "" {
			params.SSHKeys = append(params.SSHKeys, key)
		}
	}
	for _, os := range []string{"linux", "win"} {
		for _, arch := range []string{"x64", "arm64", "arm"} {
			params.Tools = append(params.Tools, garmTool{os, arch, nowhere + "none.tar.gz", "none.tar.gz"})
		}
	}
	return params, err
}

// extraSpecs returns the extra specs with the install script.
func extraSpecs(settings map[string]string) (json.RawMessage, error) {
	specs := map[string]any{}
	if text := settings["extra_specs"]; text != "" {
		if err := json.Unmarshal([]byte(text), &specs); err != nil || specs == nil {
			return nil, errors.New("setting extra_specs is no JSON object; write jsonencode({ … })")
		}
	}
	script, set := settings["install_script"]
	if !set {
		script = doNothing
	}
	if _, given := specs[installScript]; !given && script != "" {
		specs[installScript] = base64.StdEncoding.EncodeToString([]byte(script))
	}
	return json.Marshal(specs)
}

// garmInstance is an instance on stdout.
type garmInstance struct {
	ProviderID string `json:"provider_id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Fault      string `json:"provider_fault"`
	Addresses  []struct {
		Address string `json:"address"`
		Type    string `json:"type"` // public or private
	} `json:"addresses"`
}

// garmDeleted is the status of instances that are gone.
const garmDeleted = "deleted"

// garmStatuses maps the statuses of GARM.
var garmStatuses = map[string]resources.Status{
	"running": resources.StatusReady, "stopped": resources.StatusFailed, "error": resources.StatusFailed,
	"pending_create": resources.StatusPending, "creating": resources.StatusPending, "unknown": resources.StatusPending,
	"pending_delete": resources.StatusDeleting, "pending_force_delete": resources.StatusDeleting, "deleting": resources.StatusDeleting,
}

func (i garmInstance) status() resources.Status { return garmStatuses[i.Status] }

// check returns an error for an invalid instance. One with the status deleted is gone, so it may have no ID.
func (i garmInstance) check() error {
	if i.Status == garmDeleted {
		return nil
	}
	return i.instance().check()
}

// instance converts an instance. An unknown status stays as it is, and is an error later.
func (i garmInstance) instance() instanceJSON {
	result := instanceJSON{ID: i.ProviderID, Name: i.Name, Status: i.status(), Addresses: i.addresses()}
	result.Status = cmp.Or(result.Status, resources.Status(i.Status))
	if result.Status == resources.StatusFailed {
		fault := i.Fault
		if decoded, err := base64.StdEncoding.DecodeString(fault); err == nil && len(decoded) > 0 {
			fault = string(decoded) // providers in Go encode it
		}
		result.Fault = cmp.Or(fault, "the provider reports the status "+i.Status)
	}
	return result
}

func (i garmInstance) addresses() resources.Addresses {
	var a resources.Addresses
	for _, listed := range i.Addresses {
		ip, err := netip.ParseAddr(listed.Address)
		if err != nil {
			continue
		}
		place := &a.PrivateIPv4
		switch public := listed.Type == "public"; {
		case public && ip.Is4():
			place = &a.PublicIPv4
		case public:
			place = &a.PublicIPv6
		case !ip.Is4():
			place = &a.PrivateIPv6
		}
		if *place == "" {
			*place = listed.Address
		}
	}
	for _, address := range []string{a.PublicIPv4, a.PrivateIPv4, a.PublicIPv6, a.PrivateIPv6} {
		a.Interface = cmp.Or(a.Interface, address)
	}
	return a
}

// garmName is the name of an instance: HOSTNAME-INSTALLATION-ID, with a hash of the installation. It names the record.
type garmName struct{ hostname, installation, id string }

// maxName is the longest name of an instance in most clouds.
const maxName = 63

func installationHash(installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return hex.EncodeToString(sum[:4])
}

func encodeName(spec *specJSON) (string, error) {
	if spec.Tags == nil || spec.Tags.Kind != resources.KindNode || strings.Contains(spec.Tags.ID, "-") {
		return "", errors.New("a provider of GARM creates nodes only")
	}
	name := strings.Join([]string{spec.Hostname, installationHash(spec.Tags.Installation), spec.Tags.ID}, "-")
	if len(name) > maxName {
		return "", fmt.Errorf("the name %s has more than %d characters: shorten hostname_format", name, maxName)
	}
	return name, nil
}

// decodeName returns the parts of a name. Those of others have no hash.
func decodeName(name string) (garmName, bool) {
	rest, id, ok := cutLast(name)
	hostname, hash, more := cutLast(rest)
	decoded, err := hex.DecodeString(hash)
	return garmName{hostname, hash, id}, ok && more && hostname != "" && id != "" && err == nil && len(decoded) == 4
}

// isOf reports whether the tags are those of the record.
func (n garmName) isOf(tags *resources.OwnerJSON) bool {
	return tags != nil && tags.Kind == resources.KindNode && tags.ID == n.id && installationHash(tags.Installation) == n.installation
}

func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}
