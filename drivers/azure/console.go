package azure

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// maxConsoleBytes is the limit of the log that Azure keeps.
const maxConsoleBytes = 8 << 20

// ConsoleLog implements drivers.Console with the boot diagnostics: Azure returns an address of the log, which contains its
// authorization.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	doing := "read console of virtual machine " + id
	answer, err := c.vms.RetrieveBootDiagnosticsData(ctx, c.group, id, nil)
	if err != nil {
		return "", wrap(doing, err)
	}
	if deref(answer.SerialConsoleLogBlobURI) == "" {
		return "", nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, *answer.SerialConsoleLogBlobURI, nil)
	if err != nil {
		return "", fmt.Errorf("%s: Azure returns no address of the log", doing) // the error has the address
	}
	log, err := c.http.RoundTrip(request)
	if err != nil {
		return "", wrap(doing, err)
	}
	defer log.Body.Close()
	if log.StatusCode == http.StatusNotFound { // the machine has printed nothing yet
		return "", nil
	}
	if log.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %w: %s", doing, drivers.ErrUnavailable, log.Status)
	}
	text, err := io.ReadAll(io.LimitReader(log.Body, maxConsoleBytes))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", doing, drivers.ErrUnavailable, err)
	}
	return cloudkit.Console(string(text)), nil
}
