package process

import (
	"maps"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// inheritedVariables are the variables that builders inherit. All others are excluded, because npctl's own
// environment may contain passwords (OS_PASSWORD, NPCTL_VAR_…).
var inheritedVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR",
	"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
	"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
}

// BaseEnv returns the base environment of every builder's program: from environ (such as os.Environ()) only the
// variables that a program needs to run and to reach the network, with PATH, HOME and LANG always set.
func BaseEnv(environ []string) []string {
	var base []string
	for _, name := range slices.Concat(inheritedVariables, platformVariables) {
		if value := Getenv(environ, name); value != "" {
			base = append(base, name+"="+value)
		}
	}
	for name, value := range map[string]string{"PATH": systemPath, "HOME": home(), "LANG": "C.UTF-8", "USER": username()} {
		if Getenv(base, name) == "" {
			base = Setenv(base, name, value)
		}
	}
	slices.Sort(base)
	return base
}

// home returns the home directory for daemons that were started without HOME.
func home() string {
	if dir, err := os.UserHomeDir(); err == nil && dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/root"
	}
	return "/"
}

func username() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return strconv.Itoa(os.Getuid())
}

// proxyPasswords returns the passwords in proxy URLs: programs need them, but logs must not contain them.
func proxyPasswords(environ []string) []string {
	var found []string
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if address, err := url.Parse(value); err == nil && strings.HasSuffix(strings.ToLower(name), "_proxy") {
			if password, ok := address.User.Password(); ok {
				found = append(found, password)
			}
		}
	}
	return found
}

// Getenv returns the value of a variable in a list such as os.Environ().
func Getenv(environ []string, name string) string {
	for _, line := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}

// Setenv returns the list with one variable set.
func Setenv(environ []string, name, value string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(line string) bool { return strings.HasPrefix(line, name+"=") })
	return append(kept, name+"="+value)
}

// Setall returns the list with all of values set, sorted by name.
func Setall(environ []string, values map[string]string) []string {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environ = Setenv(environ, name, values[name])
	}
	return environ
}
