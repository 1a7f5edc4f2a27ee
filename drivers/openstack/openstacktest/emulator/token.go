package emulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// caller is the user of a token.
type caller struct {
	user, name, project, projectName string
	roles                            []role
	token                            token
}

// token is the content of a token. As in the real service it is not stored: it is signed and verified.
type token struct {
	User    string    `json:"u"`
	Project string    `json:"p"`
	Methods []string  `json:"m"`
	Issued  time.Time `json:"i"`
	Expires time.Time `json:"x"`
	Audit   string    `json:"a"`
}

const tokenPrefix = "gAAAAA"

func (t token) sign(secret []byte) string {
	payload, _ := json.Marshal(t) // strings and times
	mac := hmac.New(sha256.New, secret)
	mac.Write(payload)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(mac.Sum(nil), payload...))
}

func readToken(text string, secret []byte) (token, bool) {
	var t token
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, tokenPrefix))
	if err != nil || len(raw) <= sha256.Size || !strings.HasPrefix(text, tokenPrefix) {
		return t, false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(raw[sha256.Size:])
	if !hmac.Equal(mac.Sum(nil), raw[:sha256.Size]) {
		return t, false
	}
	return t, json.Unmarshal(raw[sha256.Size:], &t) == nil
}

var errUnauthorized = &apiError{status: http.StatusUnauthorized, message: "The request you have made requires authentication."}

// authenticate determines the caller.
func (c *call) authenticate() error {
	if c.route.open {
		return nil
	}
	return c.view(func(w *cloudState) error {
		who, err := callerOf(w, c.request.Header.Get("X-Auth-Token"), c.now)
		c.who = who
		return err
	})
}

// callerOf returns the user of a valid token.
func callerOf(w *cloudState, text string, now time.Time) (caller, error) {
	claims, valid := readToken(text, w.Secret)
	if !valid || !now.Before(claims.Expires) {
		return caller{}, errUnauthorized
	}
	u, found := w.Users.get(claims.User, now)
	p, foundProject := w.Projects.get(claims.Project, now)
	if !found || !foundProject {
		return caller{}, errUnauthorized
	}
	return caller{u.ID, u.Name, p.ID, p.Name, u.Roles, claims}, nil
}

const identityTime = "2006-01-02T15:04:05.000000Z"

func (c *call) tokenView(who caller) map[string]any {
	view := map[string]any{
		"methods":    who.token.Methods,
		"user":       map[string]any{"id": who.user, "name": who.name, "domain": domainView(), "password_expires_at": nil},
		"audit_ids":  []string{who.token.Audit},
		"issued_at":  who.token.Issued.UTC().Format(identityTime),
		"expires_at": who.token.Expires.UTC().Format(identityTime),
		"is_domain":  false,
		"roles":      who.roles,
		"project":    map[string]any{"id": who.project, "name": who.projectName, "domain": domainView()},
	}
	if !c.query.Has("nocatalog") {
		view["catalog"] = catalog(c.base(), who.project)
	}
	return view
}

func domainView() map[string]any { return map[string]any{"id": domainID, "name": Domain} }

// catalog lists the services at the address that the client used.
func catalog(root, project string) []any {
	services := []struct{ kind, name, path string }{
		{"identity", "keystone", "/identity/v3"},
		{"image", "glance", "/image"},
		{"compute", "nova", "/compute/v2.1"},
		{"network", "neutron", "/networking"},
		{"volumev3", "cinder", "/volume/v3/" + project},
		{"block-storage", "cinder", "/volume/v3/" + project},
	}
	sides := []string{"public", "internal", "admin"}
	list := make([]any, 0, len(services))
	for _, s := range services {
		endpoints := make([]any, 0, len(sides))
		for _, side := range sides {
			endpoints = append(endpoints, map[string]any{
				"id": hexID("endpoint/" + s.kind + "/" + side), "interface": side, "region": Region, "region_id": Region,
				"url": root + s.path,
			})
		}
		list = append(list, map[string]any{
			"id": hexID("service/" + s.kind), "type": s.kind, "name": s.name, "endpoints": endpoints,
		})
	}
	return list
}
