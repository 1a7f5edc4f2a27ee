package openstack

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// How marks are written:
//
//   - servers: metadata npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_node_id, npctl_image,
//     npctl_hash; and the tag npctl where Nova takes tags (2.52) at creation;
//   - servers that an image is made on have npctl_build_id instead of npctl_node_id;
//   - images: the same as properties, with npctl_upload_id and npctl_build, and the tag npctl, by which they are listed;
//   - snapshots: the same with npctl_build_id; the properties of the image that the server was made from stand beside
//     them, its npctl_upload_id among them, since Nova copies those;
//   - volumes: the same as metadata, written when the server is deleted;
//   - floating IPs and ports, which have no metadata: their description, "npctl:" and a query string. It is part of
//     the call that makes them, whereas Neutron's tags would need a second one that may never happen.
const (
	markPrefix = "npctl_"
	markTag    = "npctl"
	textPrefix = "npctl:"

	keyInstallation = markPrefix + "installation"
	keyNodeID       = markPrefix + "node_id"
	keyUploadID     = markPrefix + "upload_id"
	keyBuildID      = markPrefix + "build_id"
)

// markFields pairs the marks that are written the same way everywhere with their names.
func markFields(m *resources.Marks) map[string]*string {
	return map[string]*string{
		"installation": &m.Installation,
		"provider":     &m.Provider,
		"pool":         &m.Pool,
		"label":        &m.Label,
		"image":        &m.Image,
		"build":        &m.Build,
		"hash":         (*string)(&m.Hash),
	}
}

// metadata writes marks as key-value pairs.
func metadata(m resources.Marks) map[string]string {
	values := map[string]string{}
	for name, value := range markFields(&m) {
		if *value != "" {
			values[markPrefix+name] = *value
		}
	}
	values[keyOfID(m.Kind)] = m.ID
	return values
}

func keyOfID(kind resources.Kind) string {
	switch kind {
	case resources.KindUpload:
		return keyUploadID
	case resources.KindBuild:
		return keyBuildID
	default:
		return keyNodeID
	}
}

// marksOf reads marks from key-value pairs; they are zero when there is no installation among them.
func marksOf(values map[string]string) resources.Marks {
	if values[keyInstallation] == "" {
		return resources.Marks{}
	}
	var m resources.Marks
	for name, value := range markFields(&m) {
		*value = values[markPrefix+name]
	}
	for _, kind := range []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindNode} {
		if id := values[keyOfID(kind)]; id != "" {
			m.Kind, m.ID = kind, id
			return m
		}
	}
	m.Kind = resources.KindNode
	return m
}

// maxDescription is Neutron's limit on descriptions.
const maxDescription = 255

// description writes the marks that a thing without metadata needs: whose it is and which record it belongs to.
func description(m resources.Marks) string {
	q := url.Values{"installation": {m.Installation}, "kind": {string(m.Kind)}, "id": {m.ID}}
	short := textPrefix + q.Encode()
	q.Set("provider", m.Provider)
	q.Set("pool", m.Pool)
	if text := textPrefix + q.Encode(); len(text) <= maxDescription {
		return text
	}
	return short
}

// marksIn reads what description wrote; they are zero in any other text.
func marksIn(text string) resources.Marks {
	query, ok := strings.CutPrefix(text, textPrefix)
	if !ok {
		return resources.Marks{}
	}
	q, err := url.ParseQuery(query)
	if err != nil || q.Get("installation") == "" {
		return resources.Marks{}
	}
	return resources.Marks{
		Installation: q.Get("installation"),
		Kind:         resources.Kind(q.Get("kind")),
		ID:           q.Get("id"),
		Provider:     q.Get("provider"),
		Pool:         q.Get("pool"),
	}
}

// checkMetadata refuses what Nova would refuse, before anything is made.
func checkMetadata(values map[string]string) error {
	for key, value := range values {
		if len(key) > maxMetadata || len(value) > maxMetadata {
			return fmt.Errorf("%w: metadata %s: Nova takes keys and values of at most %d bytes, this value has %d; shorten it",
				drivers.ErrRejected, key, maxMetadata, len(value))
		}
	}
	return nil
}
