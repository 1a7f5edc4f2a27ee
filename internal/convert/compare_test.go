package convert

import "testing"

func TestOnlyVariablesOfOtherImagesAreInherited(t *testing.T) {
	const parent, child = `diskimage "parent".env-vars`, `diskimage "child".env-vars`
	nodepool := model{parent: {Text: `{"A":"1","TOKEN":"x"}`}, child: {Text: `{"A":"2"}`}}
	for text, want := range map[string]bool{
		`{"A":"2","TOKEN":"x"}`: true,
		`{"A":"1","TOKEN":"x"}`: true, // the parent's value is secret and therefore stronger
		`{"A":"2","TOKEN":"y"}`: false,
		`{"A":"3","TOKEN":"x"}`: false,
		`{"TOKEN":"x"}`:         false,
	} {
		if got := inheritedVariables(nodepool, model{child: {Text: text}}, child); got != want {
			t.Errorf("%s: deliberate %v, not %v", text, got, want)
		}
	}
}
