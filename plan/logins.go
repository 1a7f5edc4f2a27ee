package plan

import (
	"slices"
	"strconv"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// logins plans to update the login of an image's uploads to that of the configuration. Nodes launched later get it.
func (ip *imagePlanner) logins(img *resources.Image, p *resources.Provider) {
	if !ip.world.reachable(p.Name) {
		return
	}
	for _, u := range ip.draft.readyUploads(img.Name, p.Name) {
		if u.Unmarked && ip.world.seen.Shared { // uploaded by another program, which keeps its own login
			continue
		}
		changes := loginChanges(u.Login, img.LoginIn(p))
		if len(changes) == 0 {
			continue
		}
		at := uploadAddress(p.Name, img.Name)
		ip.loginUpdates[u.Key()] = ip.draft.add(Step{ID: "update login of upload " + u.ID, Address: at, Action: ActionUpdate, Thing: ThingUpload,
			Reason: ReasonConfigChanged, Image: img.Name, Build: u.Build, Provider: p.Name, Record: u.Key(), Changes: changes, Source: img.Source})
		if n := ip.draft.readyOn(p.Name, u); n > 0 {
			ip.draft.note(Info, "login-kept", at, img.Source, "%s of %s in %s: no change of the login until the next launch",
				text.Count(n, "ready node", "ready nodes"), img.Name, p.Name)
		}
	}
}

// readyOn counts the ready nodes of a provider that run from one of its uploads and stay.
func (d *draft) readyOn(provider string, uploads ...*resources.Upload) (n int) {
	if len(uploads) == 0 {
		return 0
	}
	for _, node := range d.world.nodes[provider] {
		runs := slices.ContainsFunc(uploads, func(u *resources.Upload) bool { return node.Upload == u.ID })
		if runs && node.State == resources.StateReady && d.deletedBy[node.Key()] == "" {
			n++
		}
	}
	return n
}

func loginChanges(before, after resources.Login) []Change {
	port := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	changes := []Change{
		{Attribute: "username", Before: before.Username, After: after.Username},
		{Attribute: "python_path", Before: before.PythonPath, After: after.PythonPath},
		{Attribute: "shell_type", Before: before.ShellType, After: after.ShellType},
		{Attribute: "connection_type", Before: before.ConnectionType, After: after.ConnectionType},
		{Attribute: "connection_port", Before: port(before.ConnectionPort), After: port(after.ConnectionPort)},
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Before == c.After })
}
