package emulator

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// authRequest is the body of a token request.
type authRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User struct {
					named
					Password string `json:"password"`
				} `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
			Credential struct {
				ID     string `json:"id"`
				Name   string `json:"name"`
				Secret string `json:"secret"`
				User   named  `json:"user"`
			} `json:"application_credential"`
		} `json:"identity"`
		Scope struct {
			Project *named `json:"project"`
		} `json:"scope"`
	} `json:"auth"`
}

// named identifies a user or project in a request: by ID, or by name and domain.
type named struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"domain"`
}

// means reports whether the request identifies the object with that ID and name. There is only one domain.
func (n named) means(id, name string) bool {
	if n.ID != "" {
		return n.ID == id
	}
	return n.Name == name && (n.Domain == nil || n.Domain.ID == domainID || n.Domain.Name == Domain)
}

func createToken(c *call) (*answer, error) {
	var in authRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	var who caller
	var text string
	err := c.view(func(w *cloudState) (err error) {
		if who, err = (loginRequest{w, c.cloud.tokens, &in, c.now, c.cloud.options.TokenTTL}).check(); err != nil {
			return err
		}
		text = who.token.sign(w.Secret)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err := created(map[string]any{"token": c.tokenView(who)})
	return a.with("X-Subject-Token", text), err
}

// loginRequest is one token request.
type loginRequest struct {
	w        *cloudState
	tokens   *revokedTokens
	in       *authRequest
	now      time.Time
	lifetime time.Duration // of the new token
}

// check checks the credentials of the request.
func (l loginRequest) check() (caller, error) {
	methods := l.in.Auth.Identity.Methods
	if len(methods) != 1 {
		return caller{}, badRequest("Expecting to find one method in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.")
	}
	switch methods[0] {
	case "password":
		return l.byPassword()
	case "application_credential":
		return l.byCredential()
	case "token":
		return l.byToken()
	}
	return caller{}, errUnauthorized
}

func (l loginRequest) byPassword() (caller, error) {
	given := l.in.Auth.Identity.Password.User
	for u := range l.w.Users.oldestFirst(l.now) {
		if given.means(u.ID, u.Name) && subtle.ConstantTimeCompare([]byte(u.Pass), []byte(given.Password)) == 1 {
			return l.issue(u, l.in.Auth.Scope.Project, "password", "")
		}
	}
	return caller{}, errUnauthorized
}

func (l loginRequest) byToken() (caller, error) {
	who, err := l.tokens.callerOf(l.w, l.in.Auth.Identity.Token.ID, l.now)
	if err != nil {
		return caller{}, err
	}
	u, _ := l.w.Users.get(who.user, l.now)
	return l.issue(u, l.in.Auth.Scope.Project, "token", "")
}

func (l loginRequest) byCredential() (caller, error) {
	given := l.in.Auth.Identity.Credential
	for k := range l.w.Credentials.oldestFirst(l.now) {
		u, found := l.w.Users.get(k.User, l.now)
		if !found || (given.ID != k.ID && (given.ID != "" || given.Name != k.Name || !given.User.means(u.ID, u.Name))) {
			continue
		}
		if secretHash(given.Secret) != k.SecretHash || (k.Expires != nil && !l.now.Before(*k.Expires)) {
			continue
		}
		return l.issue(u, &named{ID: k.Project}, "application_credential", k.ID)
	}
	return caller{}, errUnauthorized
}

func secretHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// issue creates the token. A user can only use the project of the same name.
func (l loginRequest) issue(u *user, scope *named, method, credential string) (caller, error) {
	p, _ := l.w.Projects.get(u.Project, l.now)
	if scope != nil && !scope.means(p.ID, p.Name) {
		return caller{}, errUnauthorized
	}
	audit := uuid.New()
	t := token{
		User: u.ID, Project: p.ID, Methods: []string{method}, Issued: l.now,
		Expires: l.now.Add(l.lifetime).Truncate(time.Second),
		Audit:   base64.RawURLEncoding.EncodeToString(audit[:]), Credential: credential,
	}
	if !t.Expires.After(l.now) {
		t.Expires = l.now.Add(l.lifetime)
	}
	return caller{u.ID, u.Name, p.ID, p.Name, u.Roles, t}, nil
}

func credentialView(root string, k *appCredential, roles []role) map[string]any {
	view := map[string]any{
		"id": k.ID, "name": k.Name, "description": k.Description, "project_id": k.Project, "unrestricted": k.Unbounded,
		"roles": roles, "expires_at": nil, "system": nil,
		"links": map[string]any{"self": root + "/identity/v3/users/" + k.User + "/application_credentials/" + k.ID},
	}
	if k.Expires != nil {
		view["expires_at"] = k.Expires.UTC().Format("2006-01-02T15:04:05.000000")
	}
	return view
}

func listCredentials(c *call) (*answer, error) {
	list := []any{}
	err := c.view(func(w *cloudState) error {
		for k := range w.Credentials.oldestFirst(c.now) {
			if k.User == c.who.user && (c.query.Get("name") == "" || c.query.Get("name") == k.Name) {
				list = append(list, credentialView(c.base(), k, c.who.roles))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(map[string]any{"application_credentials": list, "links": c.selfLinks()})
}

func showCredential(c *call) (*answer, error) {
	var view any
	err := c.view(func(w *cloudState) error {
		k, found := w.Credentials.get(c.id(), c.now)
		if !found || k.User != c.who.user {
			return refuse(http.StatusNotFound, "Could not find Application Credential: %s.", c.id())
		}
		view = credentialView(c.base(), k, c.who.roles)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(map[string]any{"application_credential": view})
}

func createCredential(c *call) (*answer, error) {
	var in struct {
		Given struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Secret      string `json:"secret"`
			ExpiresAt   string `json:"expires_at"`
			Unbounded   bool   `json:"unrestricted"`
		} `json:"application_credential"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	if in.Given.Name == "" {
		return nil, badRequest("'name' is a required property")
	}
	if in.Given.Secret == "" {
		in.Given.Secret = uuid.NewString() + uuid.NewString()
	}
	k := &appCredential{
		User: c.who.user, Name: in.Given.Name, Description: in.Given.Description, SecretHash: secretHash(in.Given.Secret),
		Unbounded: in.Given.Unbounded,
	}
	if in.Given.ExpiresAt != "" {
		end, err := parseIdentityTime(in.Given.ExpiresAt)
		if err != nil {
			return nil, err
		}
		k.Expires = &end
	}
	err := c.update(func(w *cloudState) error {
		k.base = w.newBase(c.who.project, c.now)
		w.Credentials.add(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	view := credentialView(c.base(), k, c.who.roles)
	view["secret"] = in.Given.Secret
	return created(map[string]any{"application_credential": view})
}

func parseIdentityTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05.999999", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badRequest("Invalid input for field 'expires_at': %s", text)
}

func deleteCredential(c *call) (*answer, error) {
	err := c.update(func(w *cloudState) error {
		k, found := w.Credentials.get(c.id(), c.now)
		if !found || k.User != c.who.user {
			return refuse(http.StatusNotFound, "Could not find Application Credential: %s.", c.id())
		}
		w.Credentials.remove(k.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return noContent()
}
