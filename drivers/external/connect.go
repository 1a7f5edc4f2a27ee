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
	provider    providerJSON
	description description
	location    string
}

var (
	_ drivers.Cloud    = (*cloud)(nil)
	_ drivers.Resolver = (*cloud)(nil)
	_ drivers.Locator  = (*cloud)(nil)
)

// call makes a call. It sets the fields of the request that all calls have.
func (c *cloud) call(ctx context.Context, r request) (response, error) {
	r.Protocol, r.Provider = version, c.provider
	var got response
	err := c.run.do(ctx, r, &got)
	return got, err
}

// open reads the description, checks the provider's settings and lets the program check its credentials.
func (c *cloud) open(ctx context.Context) error {
	described, err := c.call(ctx, request{Call: callDescribe})
	if err != nil {
		return err
	}
	c.description = described.description
	if err := c.description.check(); err != nil {
		return rejectedf("the description of the program: %w", err)
	}
	if problems := c.description.checkProvider(c.provider.Settings, c.provider.Secrets); len(problems) > 0 {
		return rejectedf("%s", problemText(problems))
	}
	opened, err := c.call(ctx, request{Call: callOpen})
	c.location = opened.Location
	return err
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
