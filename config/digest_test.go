package config

import "testing"

// TestDigestIsStable fails when the digest of an unchanged configuration changes. Saved plans are bound to the
// digest, which contains the names of the Go fields of resources.Desired: a renamed, new or moved field changes it.
// Update the constant for a new attribute; do not rename a field.
func TestDigestIsStable(t *testing.T) {
	const want = "v2:13a9cd0277e2b52a16b8e8e4f2b2e2cf:b4c53fdd:536f2ced723550e9e945830c89ca21e9"
	result, _ := Load(testOptions("testdata/sample"))
	if got := string(result.Desired.WithHashKey("key").Digests.Current()); got != want {
		t.Errorf("the digest of testdata/sample is %s, want %s: saved plans of the version before no longer match", got, want)
	}
}
