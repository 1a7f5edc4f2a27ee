package config

import "testing"

func TestEveryTopLevelBlockHasASpec(t *testing.T) {
	top := newSpecs(Options{}).top()
	for name := range topLevel {
		if top[name] == nil && name != "provider" && name != "locals" {
			t.Errorf("specs.top has no block %q, so npctl providers schema cannot describe it", name)
		}
	}
}
