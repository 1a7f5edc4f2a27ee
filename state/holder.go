package state

import (
	"cmp"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
)

// Self is this process, on the host of that name, as a holder with an id of its own.
func Self(host, version string) Holder {
	name := cmp.Or(os.Getenv("USER"), "somebody")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return Holder{ID: uuid.NewString(), Who: name + "@" + host, Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), Version: version}
}

// Or is the holder with what it leaves empty of all but Operation taken from another. A process means nothing but on its
// host.
func (h Holder) Or(other Holder) Holder {
	h.ID, h.Who, h.Host = cmp.Or(h.ID, other.ID), cmp.Or(h.Who, other.Who), cmp.Or(h.Host, other.Host)
	h.Since, h.Version = cmp.Or(h.Since, other.Since), cmp.Or(h.Version, other.Version)
	if h.PID == 0 && h.Host == other.Host {
		h.PID, h.Started = other.PID, cmp.Or(h.Started, other.Started)
	}
	return h
}
