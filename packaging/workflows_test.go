package packaging_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/internal/testutil"
)

// workflow is a workflow of GitHub Actions.
type workflow struct {
	Name        string            `yaml:"name"`
	On          any               `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Steps []struct {
			Uses string            `yaml:"uses"`
			Run  string            `yaml:"run"`
			With map[string]any    `yaml:"with"`
			Env  map[string]string `yaml:"env"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

func readWorkflow(t *testing.T, name string) (workflow, string) {
	t.Helper()
	text := testutil.ReadFile(t, "github/"+name)
	var w workflow
	testutil.Must(t, yaml.Unmarshal([]byte(text), &w))
	return w, text
}

// The job that runs the proposed configuration has no credentials, and the job with credentials does not run it.
func TestWorkflowsSeparateCredentialsFromTheChange(t *testing.T) {
	plan, planText := readWorkflow(t, "npctl-plan.yml")
	if len(plan.Permissions) != 1 || plan.Permissions["contents"] != "read" || strings.Contains(planText, "secrets.") || strings.Contains(planText, "token }}") {
		t.Errorf("the plan has permissions %v", plan.Permissions)
	}
	review, reviewText := readWorkflow(t, "npctl-review.yml")
	if review.Permissions["checks"] != "write" || review.Permissions["contents"] != "" || strings.Contains(reviewText, "actions/checkout") || !strings.Contains(reviewText, "workflows: ["+plan.Name+"]") {
		t.Errorf("the review has permissions %v", review.Permissions)
	}
	var uploaded, downloaded any
	for _, s := range plan.Jobs["plan"].Steps {
		if strings.HasPrefix(s.Uses, "actions/upload-artifact@") {
			uploaded = s.With["name"]
		}
	}
	for _, s := range review.Jobs["review"].Steps {
		if strings.HasPrefix(s.Uses, "actions/download-artifact@") {
			downloaded = s.With["name"]
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("the command %q contains text of the author", s.Run)
		}
	}
	if uploaded == nil || uploaded != downloaded {
		t.Errorf("the plan uploads %v, the review downloads %v", uploaded, downloaded)
	}
}

// workflowCommands returns the commands of npctl in the workflows.
func workflowCommands(t *testing.T) (all [][]string) {
	t.Helper()
	for _, name := range []string{"npctl-plan.yml", "npctl-review.yml"} {
		w, _ := readWorkflow(t, name)
		for _, job := range w.Jobs {
			for _, s := range job.Steps {
				if words := strings.Fields(s.Run); len(words) > 1 && words[0] == "npctl" {
					all = append(all, words[1:])
				}
			}
		}
	}
	if len(all) != 2 {
		t.Errorf("commands %v", all)
	}
	return all
}
