package openstack

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The format of ownership tags:
//
//   - servers: metadata npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_node_id, npctl_image,
//     npctl_hash; and the tag npctl where Nova accepts tags (2.52) at creation;
//   - build instances have npctl_build_id instead of npctl_node_id;
//   - images: the same as properties, with npctl_upload_id and npctl_build, and the tag npctl, which lists filter by;
//   - snapshots: the same with npctl_build_id, beside the properties of the image of the server, including its
//     npctl_upload_id, since Nova copies those;
//   - volumes: the same as metadata, written when the server is deleted;
//   - images and volumes also have npctl_object (drivers.TagObject), their ID, in a call after their creation;
//   - floating IPs and ports, which have no metadata: their description, "npctl:" and a query string. It is part of
//     the call that creates them, whereas Neutron's tags would need a second call, which a crash could prevent.
const (
	markPrefix = drivers.TagPrefix
	markTag    = "npctl"
	textPrefix = "npctl:"

	keyInstallation = drivers.TagInstallation
)

// ownerOf returns the ownership tags of a server. Nova copies the metadata of a server to no other one.
func ownerOf(metadata map[string]string) resources.OwnerTags {
	return drivers.OwnerOf(metadata, drivers.OfServer)
}

// maxDescription is Neutron's limit on descriptions.
const maxDescription = 255

// description encodes the ownership tags of an object without metadata: installation, record, and provider and pool
// if they fit.
func description(m resources.OwnerTags) string {
	q := url.Values{"installation": {m.Installation}, "kind": {string(m.Kind)}, "id": {m.ID}}
	short := textPrefix + q.Encode()
	q.Set("provider", m.Provider)
	q.Set("pool", m.Pool)
	if text := textPrefix + q.Encode(); len(text) <= maxDescription {
		return text
	}
	return short
}

// marksIn decodes the result of description; it returns zero tags for any other text.
func marksIn(text string) resources.OwnerTags {
	query, ok := strings.CutPrefix(text, textPrefix)
	if !ok {
		return resources.OwnerTags{}
	}
	q, err := url.ParseQuery(query)
	if err != nil || q.Get("installation") == "" {
		return resources.OwnerTags{}
	}
	return resources.OwnerTags{
		Installation: q.Get("installation"),
		Kind:         resources.Kind(q.Get("kind")),
		ID:           q.Get("id"),
		Provider:     q.Get("provider"),
		Pool:         q.Get("pool"),
	}
}

// checkMetadata rejects metadata that Nova would reject, before anything is created.
func checkMetadata(values map[string]string) error {
	for key, value := range values {
		if len(key) > maxMetadata || len(value) > maxMetadata {
			return fmt.Errorf("%w: metadata %s: Nova accepts keys and values of at most %d bytes, this value has %d; shorten it",
				drivers.ErrRejected, key, maxMetadata, len(value))
		}
	}
	return nil
}
