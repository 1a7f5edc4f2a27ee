// Package gearman builds images on other hosts through gearman: Builder is the client, Host is the build host.
//
// The jobs are those of the original Nodepool build workers (2015): image-build:<image>, image-upload:<build id> and
// image-delete:<build id>, with JSON arguments. Either side may be an original one. npctl's extensions are under the
// key "npctl", which originals ignore, and image-versions:<image> is its own; docs/protocols-gearman.md describes them.
package gearman

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/resources/schema"
)

// Settings configures how a Builder reaches the build hosts.
type Settings struct {
	Gearman protocol.Options
	// HostTimeout limits how long a build waits while no host offers its image, how long any job waits while no server
	// answers, and how long a removal without an answer waits for its host; two minutes when 0.
	HostTimeout time.Duration
	// Kinds are errors of a build host that callers recognize here with errors.Is. The host needs the same names.
	Kinds map[string]error
}

// Builder lets build hosts build images. Its methods may be called from several goroutines.
type Builder struct {
	client  *protocol.Client
	servers []string
	wait    time.Duration
	kinds   map[string]error
	log     *slog.Logger
	// unversioned has the images without versions, which are logged once.
	unversioned sync.Map
}

var (
	_ builders.Builder    = (*Builder)(nil)
	_ builders.Remote     = (*Builder)(nil)
	_ builders.Versioned  = (*Builder)(nil)
	_ builders.HostStatus = (*Builder)(nil)
)

// New returns a Builder. It connects when it sends its first job.
func New(s Settings) *Builder {
	s.HostTimeout = cmp.Or(s.HostTimeout, 2*time.Minute)
	log := s.Gearman.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Builder{client: protocol.New(s.Gearman), servers: s.Gearman.Servers, wait: s.HostTimeout, kinds: allKinds(s.Kinds), log: log}
}

// Kind implements builders.Builder.
func (*Builder) Kind() string { return "gearman" }

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	return schema.Of[block]("Requests the image from a build host (`npctl builder`, or an original Nodepool build worker), which keeps its files and "+
		"uploads them. npctl reaches hosts through the servers of the `gearman` block. See builders/gearman.md.",
		map[string]schema.Check{"image": checkImage})
}

// block is the decoded block.
type block struct {
	Image    string            `config:"image,replacing" doc:"Name of the image at the build hosts. Default is the name of this image."`
	Triggers map[string]string `config:"triggers,replacing" doc:"Any texts. A change of them rebuilds the image: npctl does not know its inputs, which are on the build hosts."`
}

func checkImage(v cty.Value) error {
	if err := checkName(v.AsString()); err != nil {
		return fmt.Errorf("image = %q is not an image name: %w", v.AsString(), err)
	}
	return nil
}

// allKinds adds the errors that every builder supports.
func allKinds(more map[string]error) map[string]error {
	kinds := map[string]error{"away": builders.ErrHostUnavailable, "gone": builders.ErrVersionGone, "unversioned": builders.ErrNoVersions}
	maps.Copy(kinds, more)
	return kinds
}

// kindOf returns the name of an error for the other side.
func kindOf(err error, kinds map[string]error) string {
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			return name
		}
	}
	return ""
}
