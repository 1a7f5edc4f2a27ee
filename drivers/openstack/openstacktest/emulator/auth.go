package emulator

import (
	"crypto/subtle"
	"encoding/base64"
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
		if who, err = (loginRequest{w, &in, c.now, c.cloud.options.TokenTTL}).check(); err != nil {
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
	if methods[0] == "password" {
		return l.byPassword()
	}
	return caller{}, errUnauthorized
}

func (l loginRequest) byPassword() (caller, error) {
	given := l.in.Auth.Identity.Password.User
	for u := range l.w.Users.oldestFirst(l.now) {
		if given.means(u.ID, u.Name) && subtle.ConstantTimeCompare([]byte(u.Pass), []byte(given.Password)) == 1 {
			return l.issue(u, l.in.Auth.Scope.Project)
		}
	}
	return caller{}, errUnauthorized
}

// issue creates the token. A user can only use the project of the same name.
func (l loginRequest) issue(u *user, scope *named) (caller, error) {
	p, _ := l.w.Projects.get(u.Project, l.now)
	if scope != nil && !scope.means(p.ID, p.Name) {
		return caller{}, errUnauthorized
	}
	audit := uuid.New()
	t := token{
		User: u.ID, Project: p.ID, Methods: []string{"password"}, Issued: l.now,
		Expires: l.now.Add(l.lifetime).Truncate(time.Second),
		Audit:   base64.RawURLEncoding.EncodeToString(audit[:]),
	}
	if !t.Expires.After(l.now) {
		t.Expires = l.now.Add(l.lifetime)
	}
	return caller{u.ID, u.Name, p.ID, p.Name, u.Roles, t}, nil
}
