package emulator

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

func (cv computeViews) keyView(k *keyPair) view {
	v := view{"name": k.Name, "public_key": k.PublicKey, "fingerprint": k.Fingerprint}
	if cv.micro >= 2 {
		v["type"] = k.Type
	}
	return v
}

func listKeys(c *call) (*answer, error) {
	views := []view{}
	err := c.view(func(w *cloudState) error {
		for k := range w.Keys.oldestFirst(c.now) {
			if k.User == c.who.user {
				views = append(views, view{"keypair": c.views().keyView(k)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"keypairs": views})
}

func (c *call) findKey(w *cloudState) (*keyPair, error) {
	name := c.request.PathValue("name")
	for k := range w.Keys.oldestFirst(c.now) {
		if k.User == c.who.user && k.Name == name {
			return k, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "Keypair %s not found for user %s", name, c.who.user)
}

func createKey(c *call) (*answer, error) {
	var in struct {
		Key struct {
			Name   string `json:"name"`
			Type   string `json:"type"`
			Public string `json:"public_key"`
			User   string `json:"user_id"`
		} `json:"keypair"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Key.Public == "" {
		return nil, badRequest("The emulator generates no keys. Pass a public key.")
	}
	fingerprint, err := fingerprint(in.Key.Public)
	if err != nil {
		return nil, err
	}
	if in.Key.Type == "" {
		in.Key.Type = "ssh"
	}
	k := &keyPair{Name: in.Key.Name, User: c.who.user, Type: in.Key.Type, PublicKey: in.Key.Public, Fingerprint: fingerprint}
	err = c.update(func(w *cloudState) error { return c.addKey(w, k) })
	if err != nil {
		return nil, err
	}
	v := c.views().keyView(k)
	v["user_id"] = k.User
	status := http.StatusOK
	if c.micro >= 2 {
		status = http.StatusCreated
	}
	return &answer{status: status, body: view{"keypair": v}}, nil
}

func (c *call) addKey(w *cloudState, k *keyPair) error {
	for old := range w.Keys.oldestFirst(c.now) {
		if old.User == k.User && old.Name == k.Name {
			return refuse(http.StatusConflict, "Key pair '%s' already exists.", k.Name)
		}
	}
	if q := w.quota(c.who.project); q.KeyPairs >= 0 && w.use(c.who.project).keys >= q.KeyPairs {
		return refuse(http.StatusForbidden, "Quota exceeded, too many key pairs.")
	}
	k.base = w.newBase(c.who.project, c.now)
	w.Keys.add(k)
	w.use(k.Project).keys++
	return nil
}

// fingerprint returns the MD5 fingerprint that compute reports.
func fingerprint(public string) (string, error) {
	parts := strings.Fields(public)
	if len(parts) < 2 {
		return "", badRequest("Keypair data is invalid: failed to generate fingerprint")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return "", badRequest("Keypair data is invalid: failed to generate fingerprint")
	}
	sum := md5.Sum(raw)
	var pairs []string
	for _, b := range sum {
		pairs = append(pairs, hex.EncodeToString([]byte{b}))
	}
	return strings.Join(pairs, ":"), nil
}

func deleteKey(c *call) (*answer, error) {
	err := c.update(func(w *cloudState) error {
		k, err := c.findKey(w)
		if err != nil {
			return err
		}
		w.Keys.remove(k.ID)
		w.use(k.Project).keys--
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.micro < 2 {
		return accepted(nil)
	}
	return noContent()
}
