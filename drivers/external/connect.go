package external

import (
	"context"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// cloud is an open provider: a program and its description. It has no connection, so Close does nothing.
type cloud struct {
	run         caller
	mask        masker
	provider    providerJSON
	description description
	location    string
}

var (
	_ drivers.Cloud    = (*cloud)(nil)
	_ drivers.Resolver = (*cloud)(nil)
	_ drivers.Locator  = (*cloud)(nil)
)

// call makes a call, with the fields of the request that all calls have, and passes the response to read, which checks and
// converts it. Texts of the response and errors, also those of read, contain no secrets when they leave this function. Data
// such as IDs stays unchanged, because a short secret may be a part of it.
func (c *cloud) call(ctx context.Context, r request, read func(response) error) error {
	r.Protocol, r.Provider = version, c.provider
	var got response
	err := c.run.do(ctx, r, &got)
	if err == nil {
		got.clean(c.mask)
		err = read(got)
	}
	return c.mask.err(err)
}

// open reads the description, checks the provider's settings and lets the program check its credentials.
func (c *cloud) open(ctx context.Context) error {
	err := c.call(ctx, request{Call: callDescribe}, func(got response) error {
		c.description = got.description
		if err := c.description.check(); err != nil {
			return rejectedf("the description of the program: %w", err)
		}
		if problems := c.description.checkProvider(c.provider.Settings, c.provider.Secrets); len(problems) > 0 {
			return rejectedf("%s", problemText(problems))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.call(ctx, request{Call: callOpen}, func(got response) error {
		c.location = got.Location
		return nil
	})
}

// checkLabel compares the settings of a label with their description, which is text of the program.
func (c *cloud) checkLabel(settings map[string]string) []resources.Problem {
	return c.mask.problems(checkValues("settings", settings, c.description.Label))
}

func problemText(problems []resources.Problem) string {
	var lines []string
	for _, p := range problems {
		line := p.Attribute + ": " + p.Detail
		if len(p.Suggestions) > 0 {
			line += "; did you mean " + strings.Join(p.Suggestions, ", ") + "?"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Location implements drivers.Locator.
func (c *cloud) Location() string { return c.location }

// Close implements drivers.Cloud.
func (c *cloud) Close() error { return nil }

// withAbilities returns a Cloud that has exactly the optional interfaces of the program.
func (c *cloud) withAbilities() drivers.Cloud {
	a, o := accessor{c}, consoleReader{c}
	switch access, console := c.description.can(callAccess), c.description.can(callConsole); {
	case access && console:
		return struct {
			*cloud
			accessor
			consoleReader
		}{c, a, o}
	case access:
		return struct {
			*cloud
			accessor
		}{c, a}
	case console:
		return struct {
			*cloud
			consoleReader
		}{c, o}
	default:
		return c
	}
}
