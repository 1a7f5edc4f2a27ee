package openstack

import (
	"context"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// microversion is the minor part of a compute API version: 79 is 2.79. Zero means a service without microversions.
type microversion int

// The microversions that affect this driver.
const (
	withAutoNetworks microversion = 37 // networks are required, at least "auto"
	withTags         microversion = 52 // tags at creation
	withVolumeType   microversion = 67 // boot volumes of a selected type
	// 2.69 shows servers in cells that are down, with status UNKNOWN; older versions omit them from lists as if they
	// were gone.
	newestWanted microversion = 79
)

func (m microversion) String() string {
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("2.%d", int(m))
}

// computeVersion returns the newest version of the compute API that both sides support.
func (s *session) computeVersion(ctx context.Context, root string) (microversion, error) {
	if before, _, ok := strings.Cut(root, "/"+s.project); ok {
		root = before + "/"
	}
	var answer struct {
		Version struct {
			Version string `json:"version"`
			Min     string `json:"min_version"`
		} `json:"version"`
	}
	_, err := s.provider.Request(ctx, "GET", root, &gophercloud.RequestOpts{JSONResponse: &answer, OkCodes: []int{200, 300}})
	if gophercloud.ResponseCodeIs(err, 404) { // proxies that hide the version document
		return 0, nil
	}
	if err != nil {
		return 0, wrap("read versions of the compute service", err)
	}
	var newest, oldest int
	if read, _ := fmt.Sscanf(answer.Version.Version, "2.%d", &newest); read != 1 {
		return 0, nil // unknown document, so no version is requested
	}
	_, _ = fmt.Sscanf(answer.Version.Min, "2.%d", &oldest)
	return max(min(microversion(newest), newestWanted), microversion(oldest)), nil
}
