package external

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes come from a program that you write, in any language: npctl runs it for each call, with JSON on stdin and " +
	"stdout. The program describes the settings of the provider and of labels, and npctl checks them when it plans. It also runs " +
	"providers of GARM. See drivers/external.md."

// The protocols of programs.
const (
	protocolNative = "npctl"
	protocolGARM   = "garm"
)

// providerSettings locate the program and the cloud.
type providerSettings struct {
	Command  []string          `config:"command,required" doc:"The program and its arguments, one string each; no shell is involved. A name without a slash is searched in 'PATH'; '\"${path.config}/driver.sh\"' is a file beside the configuration."`
	Protocol string            `config:"protocol" default:"npctl" oneof:"npctl garm" doc:"The protocol of the program: 'npctl', or 'garm' for a provider of the GitHub Actions Runner Manager (interface version v0.1.1)."`
	Settings map[string]string `config:"settings" doc:"Settings of the program, such as the address and the project of the cloud. The program describes them."`
	Secrets  map[string]string `config:"secrets,sensitive" doc:"Secret settings of the program. They are only on its stdin; npctl masks them in logs and errors."`
	Env      map[string]string `config:"env" doc:"Environment variables of the program, in addition to the clean environment of every program that npctl runs."`
	PassEnv  []string          `config:"pass_env" doc:"Names of variables of npctl's environment that the program receives, such as those with credentials. npctl masks their values in logs and errors."`
}

// poolSettings are the attributes of an offer that a pool may have too.
type poolSettings struct {
	Settings map[string]string         `config:"settings,replacing" doc:"Settings of instances, such as their size and their image. The program describes them. Those of a label replace those of its pool as a whole; 'merge()' combines maps."`
	Zones    []string                  `config:"zones,new" doc:"Zones to choose from; the default is the choice of the program."`
	Reach    drivers.Reach             `config:",inline"`
	Request  drivers.RequestProperties `config:",inline"`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	poolSettings `config:",inline"`
}

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver {
	pool := schema.Of[poolSettings]("", map[string]schema.Check{"settings": checkSettings})
	return schema.Driver{
		Doc: driverDoc,
		Provider: schema.Of[providerSettings]("", map[string]schema.Check{
			"command": checkCommand, "settings": checkSettings, "secrets": checkSettings, "env": checkVariables, "pass_env": checkVariables,
		}),
		Pool:      pool,
		Label:     schema.ForLabels[labelSettings](pool, nil),
		HasLabels: true,
	}
}

func checkCommand(v cty.Value) error {
	if v.LengthInt() == 0 {
		return errors.New(`command is empty: write a program and its arguments, such as ["${path.config}/driver.sh"]`)
	}
	if first := v.AsValueSlice()[0]; first.IsNull() || first.IsKnown() && strings.TrimSpace(first.AsString()) == "" {
		return errors.New("the first string of command is empty: write a program")
	}
	return nil
}

// settingName keeps names unambiguous as environment variables.
var settingName = drivers.Pattern(`^[a-z][a-z0-9_]{0,63}$`)

func checkSettings(v cty.Value) error {
	for name := range v.AsValueMap() {
		if !settingName().MatchString(name) {
			return fmt.Errorf("%q is not the name of a setting; use lower-case letters, digits and underscores", name)
		}
	}
	return nil
}

var variableName = drivers.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkVariables checks the keys of a map, or the elements of a list.
func checkVariables(v cty.Value) error {
	var names []string
	if v.Type().IsMapType() {
		names = slices.Sorted(maps.Keys(v.AsValueMap()))
	} else {
		for _, name := range v.AsValueSlice() {
			if !name.IsNull() && name.IsKnown() {
				names = append(names, name.AsString())
			}
		}
	}
	for _, name := range names {
		if !variableName().MatchString(name) {
			return fmt.Errorf("%q is not the name of an environment variable; use letters, digits and underscores", name)
		}
		if strings.HasPrefix(name, "NPCTL_") || strings.HasPrefix(name, "GARM_") {
			return fmt.Errorf("%s is set by npctl: choose another name", name)
		}
	}
	return nil
}

// secretsOf returns the texts that no log and no error may contain.
func secretsOf(s providerSettings) []string {
	secrets := slices.Collect(maps.Values(s.Secrets))
	for _, name := range s.PassEnv {
		secrets = append(secrets, os.Getenv(name))
	}
	return secrets
}

// environment returns the environment of every call.
func environment(environ []string, s providerSettings) []string {
	env := process.BaseEnv(environ)
	for _, name := range s.PassEnv {
		if value, ok := os.LookupEnv(name); ok {
			env = process.Setenv(env, name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = process.Setenv(env, name, s.Env[name])
	}
	return env
}
