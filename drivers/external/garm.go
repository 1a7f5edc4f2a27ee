package external

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// garm translates the calls to the interface v0.1.1 of GARM's external providers. Sources: doc/external_provider.md of
// cloudbase/garm, and execution/v0.1.1 of cloudbase/garm-provider-common.
//
// GARM keeps a controller ID, a pool ID and a name with an instance, and nothing else. The IDs are made from the
// installation and the provider; the name contains the record (see garmName), so a deletion is verified with the data of the
// cloud. The other ownership tags are in files of the provider's directory; an instance without its file has none of them. The
// file also has the ID of the instance: another one with the same name is a copy, and belongs to others. Until npctl knows the ID, and
// without the file, the name decides.
type garm struct {
	program      *program
	config       string // GARM_PROVIDER_CONFIG_FILE
	controller   string
	pool         string
	provider     string
	installation string
}

// The exit statuses of GARM's providers with a meaning.
const (
	garmNotFound  = 30
	garmDuplicate = 31
)

func newGARM(p *program, env drivers.Env, s providerSettings) (*garm, error) {
	g := &garm{
		program: p, provider: env.Provider, installation: env.Installation,
		controller: uuid.NewSHA1(uuid.NameSpaceURL, []byte("npctl:"+env.Installation)).String(),
		pool:       uuid.NewSHA1(uuid.NameSpaceURL, []byte("npctl:"+env.Installation+"/"+filepath.Base(p.dir))).String(), // the same after moved blocks
	}
	var err error
	if g.config, err = filepath.Abs(s.Settings["config_file"]); err != nil {
		return nil, err
	}
	return g, nil
}

// do implements caller.
func (g *garm) do(ctx context.Context, r request, into *response) error {
	switch r.Call {
	case callDescribe:
		into.description = garmDescription()
		return nil
	case callOpen:
		if _, err := os.Stat(g.config); err != nil {
			return rejectedf("setting config_file: %w", err)
		}
		_, err := g.list(ctx)
		return err
	case callCreate:
		return g.create(ctx, r.Spec, into)
	case callDelete:
		return g.delete(ctx, r.ID, r.Expected)
	case callList:
		return g.instances(ctx, into)
	default:
		return drivers.ErrNotSupported
	}
}

// command runs one command of the interface.
func (g *garm) command(ctx context.Context, command string, j job) ([]byte, error) {
	extra := j.vars
	j.call = command
	j.vars = append([]string{
		"GARM_COMMAND=" + command, "GARM_INTERFACE_VERSION=v0.1.1", "GARM_PROVIDER_CONFIG_FILE=" + g.config,
		"GARM_CONTROLLER_ID=" + g.controller, "GARM_POOL_ID=" + g.pool,
	}, extra...)
	j.limit = max(j.limit, singleLimit)
	return g.program.run(ctx, j)
}

// noExtraSpecs are empty extra specs for commands that do not concern one label.
const noExtraSpecs = "GARM_POOL_EXTRASPECS=e30="

func (g *garm) list(ctx context.Context) (listJSON[garmInstance], error) {
	stdout, err := g.command(ctx, "ListInstances", job{vars: []string{noExtraSpecs}, limit: listLimit})
	if err != nil {
		return nil, err
	}
	var list listJSON[garmInstance]
	if err := decode(stdout, &list); err != nil {
		return nil, fmt.Errorf("%s ListInstances: its stdout is no list: %w", g.program.name(), err)
	}
	return slices.DeleteFunc(list, func(i garmInstance) bool { return i.Status == garmDeleted }), nil
}

func (g *garm) instances(ctx context.Context, into *response) error {
	list, err := g.list(ctx)
	if err != nil {
		return err
	}
	result := make(listJSON[instanceJSON], 0, len(list))
	for _, i := range list {
		result = append(result, g.instance(i))
	}
	into.Instances = &result
	return nil
}

// instance adds the ownership tags and the stored facts to an instance of the provider.
func (g *garm) instance(i garmInstance) instanceJSON {
	result := i.instance()
	name, ours := decodeName(i.Name)
	if !ours {
		return result
	}
	tags := &resources.OwnerJSON{Installation: g.installation, Kind: resources.KindNode, ID: name.id, Provider: g.provider}
	if stored, found := readFacts(g.factsFile(i.Name), name); found {
		if stored.isOfAnother(i.ProviderID) {
			return result
		}
		tags = stored.Tags
		result.Zone, result.Flavor, result.Resources, result.Created, result.Login = stored.Zone, stored.Flavor, stored.Resources, stored.Created, stored.Login
	}
	if name.isOf(tags) {
		result.Name, result.Tags = name.hostname, tags
	}
	return result
}

func (g *garm) create(ctx context.Context, spec *specJSON, into *response) error {
	name, err := encodeName(spec)
	if err != nil {
		return rejectedf("%w", err)
	}
	if spec.MaybeCreated {
		if found, err := g.existing(ctx, name, into); found || err != nil {
			return err
		}
	}
	facts, err := factsOf(spec)
	if err != nil {
		return rejectedf("%w", err)
	}
	params, err := g.bootstrap(name, spec)
	if err != nil {
		return rejectedf("%w", err)
	}
	if err := g.writeFacts(name, facts); err != nil {
		return rejectedf("%w", err)
	}
	stdin, err := json.Marshal(params)
	if err != nil {
		return rejectedf("%w", err)
	}
	vars := []string{"GARM_POOL_EXTRASPECS=" + base64.StdEncoding.EncodeToString(params.ExtraSpecs)}
	stdout, err := g.command(ctx, "CreateInstance", job{stdin: stdin, vars: vars})
	if exitCode(err) == garmDuplicate {
		if found, err := g.existing(ctx, name, into); found || err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	var made garmInstance
	if err := decode(stdout, &made); err != nil {
		return fmt.Errorf("%s CreateInstance: its stdout is no instance: %w", g.program.name(), err)
	}
	made.Name, facts.Object = name, made.ProviderID
	result := g.instance(made)
	into.Instance = &result
	return g.writeFacts(name, facts)
}

// existing fills the response with the instance of the name, if it exists. A copy of it is another instance.
func (g *garm) existing(ctx context.Context, name string, into *response) (bool, error) {
	list, err := g.list(ctx)
	if err != nil {
		return false, err
	}
	decoded, _ := decodeName(name)
	stored, _ := readFacts(g.factsFile(name), decoded)
	i := slices.IndexFunc(list, func(i garmInstance) bool {
		return i.Name == name && i.status() != resources.StatusDeleting && !stored.isOfAnother(i.ProviderID)
	})
	if i < 0 {
		return false, nil
	}
	result := g.instance(list[i])
	into.Instance = &result
	if stored.Object != "" || stored.Tags == nil {
		return true, nil
	}
	stored.Object = list[i].ProviderID
	return true, g.writeFacts(name, stored)
}

// delete reads the instance and compares its name with the expected record, then deletes it.
func (g *garm) delete(ctx context.Context, id string, expected *ownerJSON) error {
	seen, found, err := g.get(ctx, id)
	if err != nil || !found {
		return err
	}
	name, ours := decodeName(seen.Name)
	if !ours || !name.isOf(expected.Tags) {
		return &callError{kind: drivers.ErrNotOurs, message: fmt.Sprintf("instance %s is called %s", id, seen.Name), nothingDone: true}
	}
	if stored, _ := readFacts(g.factsFile(seen.Name), name); stored.isOfAnother(id) {
		return &callError{kind: drivers.ErrNotOurs, message: fmt.Sprintf("instance %s has the name of instance %s", id, stored.Object), nothingDone: true}
	}
	_, err = g.command(ctx, "DeleteInstance", job{vars: []string{"GARM_INSTANCE_ID=" + id, noExtraSpecs}})
	if err != nil && exitCode(err) != garmNotFound {
		return err
	}
	g.prune(ctx)
	return nil
}

// get reads an instance. Some providers report a missing instance with the general exit status: then the list decides.
func (g *garm) get(ctx context.Context, id string) (garmInstance, bool, error) {
	stdout, err := g.command(ctx, "GetInstance", job{vars: []string{"GARM_INSTANCE_ID=" + id, noExtraSpecs}})
	switch code := exitCode(err); {
	case code == garmNotFound:
		return garmInstance{}, false, nil
	case code != 0:
		list, listErr := g.list(ctx)
		if listErr != nil {
			return garmInstance{}, false, errors.Join(err, listErr)
		}
		i := slices.IndexFunc(list, func(i garmInstance) bool { return i.ProviderID == id })
		if i < 0 {
			return garmInstance{}, false, nil
		}
		return list[i], true, nil
	case err != nil:
		return garmInstance{}, false, err
	}
	var seen garmInstance
	if err := decode(stdout, &seen); err != nil {
		return seen, false, fmt.Errorf("%s GetInstance: its stdout is no instance: %w", g.program.name(), err)
	}
	return seen, true, nil
}

// garmFacts are what npctl knows about an instance and the provider does not keep.
type garmFacts struct {
	Object    string                    `json:"object,omitempty"` // the instance's ID, once its create has returned
	Tags      *resources.OwnerJSON      `json:"tags"`
	Zone      string                    `json:"zone,omitempty"`
	Flavor    string                    `json:"flavor,omitempty"`
	Resources resources.ResourceAmounts `json:"resources,omitzero"`
	Created   time.Time                 `json:"created"`
	Login     resources.Login           `json:"login,omitzero"`
}

// isOfAnother reports whether these are the facts of an instance with another ID.
func (f garmFacts) isOfAnother(id string) bool { return f.Object != "" && f.Object != id }

func factsOf(spec *specJSON) (garmFacts, error) {
	numbers := map[string]int64{"cores": 0, "ram": 0, "connection_port": 0}
	for name := range numbers {
		text, set := spec.Settings[name]
		if !set {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return garmFacts{}, fmt.Errorf("setting %s: %q is not a whole number", name, text)
		}
		numbers[name] = n
	}
	return garmFacts{
		Tags: spec.Tags, Zone: spec.Zone, Flavor: spec.Settings["flavor"], Created: time.Now().UTC().Truncate(time.Second),
		Resources: resources.ResourceAmounts{Instances: 1, Cores: numbers["cores"], RAM: numbers["ram"]},
		Login: resources.Login{Username: spec.Settings["username"], ConnectionType: spec.Settings["connection_type"],
			ConnectionPort: numbers["connection_port"]},
	}, nil
}

const factsSuffix = ".instance.json"

func (g *garm) factsFile(name string) string {
	return filepath.Join(g.program.dir, filepath.Base(name)+factsSuffix)
}

// writeFacts writes the file of an instance before the provider creates it.
func (g *garm) writeFacts(name string, facts garmFacts) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	file := g.factsFile(name)
	temporary := file + ".new"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// readFacts reads the file of the instance with a name. Other files are foreign.
func readFacts(path string, name garmName) (stored garmFacts, found bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return stored, false
	}
	text, err := os.ReadFile(path)
	return stored, err == nil && json.Unmarshal(text, &stored) == nil && name.isOf(stored.Tags)
}

// pruneAge is the age at which the file of a missing instance is deleted. A new instance may not be listed yet.
const pruneAge = 24 * time.Hour

// prune deletes the files of missing instances. A file that stays is harmless, and the next deletion of an instance tries
// again.
func (g *garm) prune(ctx context.Context) {
	old := map[string]string{} // files by name of the instance
	files, _ := os.ReadDir(g.program.dir)
	for _, file := range files {
		instance, isFacts := strings.CutSuffix(file.Name(), factsSuffix)
		name, ours := decodeName(instance)
		path := filepath.Join(g.program.dir, file.Name())
		info, err := file.Info()
		if !isFacts || !ours || err != nil || time.Since(info.ModTime()) <= pruneAge {
			continue
		}
		if _, found := readFacts(path, name); found {
			old[instance] = path
		}
	}
	if len(old) == 0 {
		return
	}
	list, err := g.list(ctx)
	if err != nil {
		return
	}
	for _, i := range list {
		delete(old, i.Name)
	}
	for _, path := range old {
		_ = os.Remove(path)
	}
}
