//go:build integration

package azure

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// The account of every Azurite, with its published key.
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// azuriteAccess returns a shared access signature of the account:
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas.
func azuriteAccess(t *testing.T) string {
	t.Helper()
	values := url.Values{"sv": {"2021-12-02"}, "ss": {"b"}, "srt": {"sco"}, "sp": {"rwdlac"}, "se": {time.Now().UTC().Add(time.Hour).Format(time.RFC3339)}, "spr": {"https,http"}}
	text := strings.Join([]string{azuriteAccount, values.Get("sp"), values.Get("ss"), values.Get("srt"), "", values.Get("se"), "", values.Get("spr"), values.Get("sv"), "", ""}, "\n")
	key, err := base64.StdEncoding.DecodeString(azuriteKey)
	testutil.Must(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	values.Set("sig", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return values.Encode()
}

// azurite sends a request to the Azurite that test/clouds/run.sh starts.
func azurite(t *testing.T, method, path, query string, header map[string]string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, os.Getenv("NPCTL_TEST_AZURITE")+"/"+azuriteAccount+path+"?"+query, nil)
	testutil.Must(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testutil.Must(t, err)
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s\n%s", method, path, answer.Status, body)
	}
	return body
}

// Azurite is Microsoft's own emulator of Azure Storage: a page blob is what a disk is during its upload.
func TestPagesAreWrittenToAzurite(t *testing.T) {
	access := azuriteAccess(t)
	container := fmt.Sprint("disks", time.Now().UnixNano())
	azurite(t, http.MethodPut, "/"+container, "restype=container&"+access, nil)
	content := make([]byte, 3*rangeSize+1000)
	rand.Read(content[:rangeSize])
	content[2*rangeSize+5] = 1
	spec := imageSpec(content, formatRaw)
	tail := tailOf(spec)
	azurite(t, http.MethodPut, "/"+container+"/disk", access, map[string]string{"X-Ms-Blob-Type": "PageBlob", "X-Ms-Version": storageVersion,
		"X-Ms-Blob-Content-Length": fmt.Sprint(len(content) + len(tail))})
	address := os.Getenv("NPCTL_TEST_AZURITE") + "/" + azuriteAccount + "/" + container + "/disk?" + access
	testutil.Must(t, writePages(t.Context(), http.DefaultTransport, address, "disk", spec, bytes.NewReader(content), tail))
	if stored := azurite(t, http.MethodGet, "/"+container+"/disk", access, nil); !bytes.Equal(stored, append(bytes.Clone(content), tail...)) {
		t.Errorf("the blob has %d bytes, which are not those of the image", len(stored))
	}
	w := &pageWriter{transport: http.DefaultTransport, access: address, disk: "disk"}
	wrong := base64.StdEncoding.EncodeToString(make([]byte, 16))
	if err := w.send(t.Context(), 0, content[:sectorSize], wrong); err == nil || !strings.Contains(err.Error(), "Md5Mismatch") {
		t.Errorf("a range with another MD5: %v, want Md5Mismatch", err)
	}
	w.access = strings.Replace(address, "sig=", "sig=wrong", 1)
	if err := w.send(t.Context(), 0, content[:sectorSize], wrong); err == nil || strings.Contains(err.Error(), "sig=") {
		t.Errorf("a range with a wrong signature: %v, want an error without the address", err)
	}
}
