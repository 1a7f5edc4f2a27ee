package watch

import "strings"

// ProvidersNotListed returns the providers to serve that have not been listed yet, successfully or not. New providers
// appear in it, and providers that this process becomes the leader of.
func (d *Daemon) ProvidersNotListed() (names []string) {
	desired := d.Desired()
	for i := range desired.Providers {
		name := desired.Providers[i].Name
		if _, listed := d.observer.Listing(name); !listed && d.duties.mayManage(name) {
			names = append(names, name)
		}
	}
	return names
}

// NotReady returns why the daemon cannot serve everything now, or an empty string when it can.
func (d *Daemon) NotReady() string {
	switch unlisted := d.ProvidersNotListed(); {
	case d.connection.isDown():
		return "the state is unreachable"
	case len(unlisted) > 0:
		return "not listed yet: " + strings.Join(unlisted, ", ")
	case d.LastPassEnd().IsZero():
		return "no pass has completed yet"
	default:
		return ""
	}
}
