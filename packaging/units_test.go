package packaging_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// unit holds the values of a unit file by section and name.
type unit map[string]map[string][]string

// sections lists the allowed sections by kind of unit.
var sections = map[string][]string{".service": {"Unit", "Service", "Install"}, ".socket": {"Unit", "Socket", "Install"}}

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	text, err := os.ReadFile(path)
	testutil.Must(t, err)
	u, section := unit{}, ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			if u[section] != nil || !slices.Contains(sections[filepath.Ext(path)], section) {
				t.Errorf("%s:%d: section %s is not allowed here, or occurs twice", path, n, section)
			}
			u[section] = map[string][]string{}
		case !assigned || section == "" || strings.HasSuffix(line, `\`):
			t.Errorf("%s:%d: %q is no setting", path, n, line)
		case strings.ContainsAny(value, "#"):
			t.Errorf("%s:%d: systemd takes a comment behind a value for a part of it", path, n)
		default:
			u[section][name] = append(u[section][name], value)
		}
	}
	return u
}

func (u unit) one(t *testing.T, section, name string) string {
	t.Helper()
	if len(u[section][name]) != 1 {
		t.Fatalf("%s= occurs %d times, want once", name, len(u[section][name]))
	}
	return u[section][name][0]
}

// span parses a duration in the format of systemd, such as 2min.
func span(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.NewReplacer("min", "m").Replace(text))
	testutil.Must(t, err)
	return d
}

func units(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("systemd/*.*")
	testutil.Must(t, err)
	files = slices.DeleteFunc(files, func(f string) bool { return sections[filepath.Ext(f)] == nil })
	if len(files) < 3 {
		t.Fatalf("units are %q", files)
	}
	return files
}

// npctl is the path of the tested binary.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

func TestUnitsRunExistingCommands(t *testing.T) {
	commands := [][]string{dockerCommand(t, "watch"), dockerCommand(t, "builder")}
	for _, file := range units(t) {
		u := readUnit(t, file)
		if u["Service"] == nil {
			continue
		}
		words := strings.Fields(u.one(t, "Service", "ExecStart"))
		if words[0] != "/usr/bin/npctl" {
			t.Errorf("%s runs %s", file, words[0])
		}
		commands = append(commands, words[1:])
	}
	for _, words := range append(commands, workflowCommands(t)...) {
		help, err := exec.CommandContext(t.Context(), npctl, words[0], "-help").CombinedOutput()
		if err != nil {
			t.Errorf("npctl %s: %v\n%s", words[0], err, help)
		}
		for _, option := range words[1:] {
			name, _, _ := strings.Cut(option, "=")
			if strings.HasPrefix(name, "$NPCTL_") || !strings.HasPrefix(name, "-") {
				continue
			}
			if !regexp.MustCompile(`(?m)[ ,]` + regexp.QuoteMeta(name) + `[=, ]`).Match(help) {
				t.Errorf("npctl %s has no option %s", words[0], name)
			}
		}
	}
}

// dockerCommand returns the CMD of a target of the Dockerfile.
func dockerCommand(t *testing.T, target string) []string {
	t.Helper()
	text := testutil.ReadFile(t, "docker/Dockerfile")
	_, stage, _ := strings.Cut(text, " AS "+target+"\n")
	stage, _, _ = strings.Cut(stage, "\nFROM ")
	found := regexp.MustCompile(`(?m)^CMD \[(.*)\]$`).FindStringSubmatch(stage)
	if found == nil {
		t.Fatalf("target %s has no CMD", target)
	}
	var words []string
	for word := range strings.SplitSeq(found[1], ", ") {
		plain, err := strconv.Unquote(word)
		testutil.Must(t, err)
		words = append(words, plain)
	}
	return words
}

func TestUnitTimeoutsExceedGrace(t *testing.T) {
	for _, file := range []string{"systemd/npctl-watch.service", "systemd/npctl-builder.service"} {
		u := readUnit(t, file)
		grace := regexp.MustCompile(`-grace=(\S+)`).FindStringSubmatch(u.one(t, "Service", "ExecStart"))
		if grace == nil {
			t.Errorf("%s sets no -grace", file)
			continue
		}
		if stop := span(t, u.one(t, "Service", "TimeoutStopSec")); stop < span(t, grace[1])+20*time.Second {
			t.Errorf("%s: TimeoutStopSec=%s is not well above -grace=%s", file, stop, grace[1])
		}
	}
}

// mayNot lists the settings that the unit of the daemon must contain, most of which restrict it.
var mayNot = map[string]string{"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
	"CapabilityBoundingSet": "", "AmbientCapabilities": "", "RestrictSUIDSGID": "yes", "RestrictNamespaces": "yes", "MemoryDenyWriteExecute": "yes",
	"User": "npctl", "Type": "notify", "Restart": "always"}

func TestServicesReloadAndNotify(t *testing.T) {
	for _, file := range []string{"systemd/npctl-watch.service", "systemd/npctl-builder.service"} {
		u := readUnit(t, file)
		for name, want := range map[string]string{"Type": "notify", "NotifyAccess": "main", "ExecReload": "/bin/kill -HUP $MAINPID"} {
			if got := u.one(t, "Service", name); got != want {
				t.Errorf("%s: %s=%s, want %s", file, name, got, want)
			}
		}
	}
}

func TestWatchUnitIsHardened(t *testing.T) {
	u := readUnit(t, "systemd/npctl-watch.service")
	for name, want := range mayNot {
		if got := u.one(t, "Service", name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	if len(u["Service"]["ProcSubset"]) > 0 {
		t.Error("without /proc/sys npctl cannot distinguish the lock of a dead process from that of a running one")
	}
	if watchdog := span(t, u.one(t, "Service", "WatchdogSec")); watchdog < 30*time.Second {
		t.Errorf("WatchdogSec=%s: a pass may take longer when the disk is slow", watchdog)
	}
}

func TestSocketPathIsTheDefaultOfCommands(t *testing.T) {
	u := readUnit(t, "systemd/npctl-watch.socket")
	if got := u.one(t, "Socket", "ListenStream"); got != "/var/lib/npctl/npctl.db.sock" {
		t.Errorf("the socket is %s", got)
	}
	docs, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	testutil.Must(t, err)
	if !strings.Contains(string(docs), `path = "/var/lib/npctl/npctl.db"`) {
		t.Error("docs/operations.md puts the state elsewhere")
	}
}
