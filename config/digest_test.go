package config

import "testing"

// TestDigestIsStable fails when the digest of an unchanged configuration changes. Saved plans are bound to the
// digest, which contains the names of the Go fields of resources.Desired: a renamed, new or moved field changes it.
// Update the constant for a new attribute; do not rename a field.
func TestDigestIsStable(t *testing.T) {
	const want = "v2:88267f6ec7f7a684aefb79a1e1a68fab:b4c53fdd:2d36ab8136ef4528460bfb06cbf463b8"
	result, _ := Load(testOptions("testdata/sample"))
	if got := string(result.Desired.WithHashKey("key").Digests.Current()); got != want {
		t.Errorf("the digest of testdata/sample is %s, want %s: saved plans of the version before no longer match", got, want)
	}
}
