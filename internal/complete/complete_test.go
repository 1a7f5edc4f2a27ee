package complete

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"
)

// sourced is an option whose source is its own name.
type sourced struct{ cli.StringFlag }

func (s *sourced) Source() any { return s.Name }

func tree() *cli.Command {
	return &cli.Command{Name: "npctl", Flags: []cli.Flag{&cli.StringFlag{Name: "state", TakesFile: true, Usage: "state file `PATH`"}}, Commands: []*cli.Command{
		{Name: "node", Usage: "nodes", Commands: []*cli.Command{
			{Name: "list", Flags: []cli.Flag{
				&sourced{cli.StringFlag{Name: "state", Usage: "only `STATES`; of nodes"}}, &cli.BoolFlag{Name: "json"}, &cli.BoolFlag{Name: "refresh", Value: true},
			}},
			{Name: "show", Metadata: map[string]any{Arguments: "nodes"}},
		}},
		{Name: "docs", Hidden: true},
	}}
}

func TestWantDependsOnTheWordsBefore(t *testing.T) {
	for line, want := range map[string]struct {
		source     any
		candidates string
	}{
		"":                       {nil, "node"},
		"no":                     {nil, "node"},
		"help n":                 {nil, "node"},
		"node ":                  {nil, "list show"},
		"-state=x node l":        {nil, "list"},
		"-state node node s":     {nil, "show"},
		"-state ":                {Files, ""},
		"node list --state=":     {"state", ""},
		"node list -state ":      {"state", ""},
		"node list -s":           {nil, "-state="},
		"node list --r":          {nil, "--refresh=false"},
		"node list -json=":       {nil, "-json=true -json=false"},
		"node list -nothing=":    {nil, ""},
		"node show ":             {"nodes", ""},
		"node show 17 ":          {"nodes", ""},
		"node show -- -":         {"nodes", ""},
		"node list -state=a,b -": {nil, "-help -state= -json -refresh=false"},
	} {
		w := Parse(tree(), strings.Split(line, " ")).Want()
		var got []string
		for _, c := range w.Match(w.Known) {
			got = append(got, c.Text)
		}
		if w.Source != want.source || strings.Join(got, " ") != want.candidates {
			t.Errorf("%q: source %v, candidates %v, want %v", line, w.Source, got, want)
		}
	}
}

func TestParseKeepsArgumentsAndOptions(t *testing.T) {
	l := Parse(tree(), strings.Split("-state=file node list a -state ready b x", " "))
	if diff := cmp.Diff([]string{"a", "b"}, l.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Option{{"state", "file", true}, {"state", "ready", false}}, l.Given); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestEveryShellHasAScript(t *testing.T) {
	for _, shell := range Shells {
		if script, err := Script(shell); err != nil || !strings.Contains(script, Command) {
			t.Errorf("%s: %v, %q", shell, err, script)
		}
	}
}
