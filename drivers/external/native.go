package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// native speaks npctl's own protocol.
type native struct{ program *program }

func (n *native) do(ctx context.Context, r request, into *response) error {
	stdin, err := json.Marshal(r)
	if err != nil {
		return rejectedf("%s: %w", r.Call, err)
	}
	j := job{call: r.Call, stdin: append(stdin, '\n'), vars: r.variables(), limit: singleLimit}
	if r.Call == callList {
		j.limit = listLimit
	}
	p := *n.program
	p.args = append(p.args[:len(p.args):len(p.args)], r.Call)
	stdout, err := p.run(ctx, j)
	if err != nil {
		return err
	}
	var fields any = into
	if r.Call == callList {
		fields = &into.listResponse // the other fields have no place in a response of its size
	}
	if err := decode(stdout, fields); err != nil {
		return fmt.Errorf("%s %s: its stdout is no response: %w", p.name(), r.Call, err)
	}
	if into.Error != nil {
		return into.Error.err(p.name() + " " + r.Call)
	}
	return nil
}

// decode reads one JSON document.
func decode(doc []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	if err := decoder.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		if _, ok := errors.AsType[*time.ParseError](err); ok {
			return errors.New("a time is not like 2026-01-31T23:59:59Z") // the error quotes the text in a form of its own
		}
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON object")
	}
	return nil
}

// variables returns the request as environment variables, for programs that cannot read JSON.
func (r request) variables() []string {
	v := &variables{}
	v.add("PROTOCOL", fmt.Sprint(r.Protocol))
	v.add("CALL", r.Call)
	v.add("PROVIDER", r.Provider.Name)
	v.add("INSTALLATION", r.Provider.Installation)
	v.add("DIRECTORY", r.Provider.Directory)
	v.addAll("SETTING_", r.Provider.Settings)
	v.add("INSTANCE", r.ID)
	switch {
	case r.Spec != nil:
		v.owner(r.Spec.ownerJSON)
		v.add("HOSTNAME", r.Spec.Hostname)
		v.add("ZONE", r.Spec.Zone)
		v.add("MAYBE_CREATED", fmt.Sprint(r.Spec.MaybeCreated))
		v.addAll("LABEL_", r.Spec.Settings)
	case r.Expected != nil:
		v.owner(*r.Expected)
	case r.Offer != nil:
		v.addAll("LABEL_", r.Offer.Settings)
	}
	if r.Instance != nil {
		v.add("INSTANCE", r.Instance.ID)
	}
	return v.list
}

// longestVariable is the longest value of a variable; longer ones are only in the request.
const longestVariable = 32 << 10

// variables are environment variables with the prefix NPCTL_.
type variables struct{ list []string }

func (v *variables) add(name, value string) {
	if len(value) <= longestVariable && !strings.Contains(value, "\x00") {
		v.list = append(v.list, "NPCTL_"+name+"="+value)
	}
}

func (v *variables) addAll(prefix string, settings map[string]string) {
	for name, value := range settings {
		v.add(prefix+strings.ToUpper(name), value)
	}
}

func (v *variables) owner(o ownerJSON) {
	v.add("OWNER", o.Owner)
	if o.Tags == nil {
		v.add("TAGS", "")
		return
	}
	if tags, err := json.Marshal(o.Tags); err == nil {
		v.add("TAGS", string(tags))
	}
}
