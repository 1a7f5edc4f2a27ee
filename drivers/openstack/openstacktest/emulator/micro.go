package emulator

import (
	"net/http"
	"strconv"
	"strings"
)

// micro is a microversion: the minor number of a version 2.x of compute.
type micro int

// The range of microversions of this compute API, like nova in the release Zed. oldestMicro is also the default for
// clients that request none.
const (
	oldestMicro micro = 1
	newestMicro micro = 93
)

func (m micro) String() string { return "2." + strconv.Itoa(int(m)) }

// negotiate determines the microversion that the client requests.
func (c *call) negotiate() error {
	c.micro = oldestMicro
	if c.route.service != compute {
		return nil
	}
	wanted := microHeader(c.request.Header)
	switch wanted {
	case "":
		return nil
	case "latest":
		c.micro = newestMicro
		return nil
	}
	major, minor, _ := strings.Cut(wanted, ".")
	n, err := strconv.Atoi(minor)
	if err != nil || strings.Trim(major, "0123456789") != "" || major == "" {
		return badRequest("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", wanted)
	}
	if major != "2" || micro(n) < oldestMicro || micro(n) > newestMicro {
		return refuse(http.StatusNotAcceptable, "Version %s is not supported by the API. Minimum is %s and maximum is %s.",
			wanted, oldestMicro, newestMicro)
	}
	c.micro = micro(n)
	return nil
}

func microHeader(h http.Header) string {
	for _, value := range h.Values("OpenStack-API-Version") {
		for part := range strings.SplitSeq(value, ",") {
			if name, version, found := strings.Cut(strings.TrimSpace(part), " "); found && name == "compute" {
				return strings.TrimSpace(version)
			}
		}
	}
	return h.Get("X-OpenStack-Nova-API-Version")
}

// volumeMaximum is the newest announced microversion of block storage; no response depends on it.
const volumeMaximum = "3.70"

func volumeVersion(h http.Header) string {
	if _, version, found := strings.Cut(h.Get("OpenStack-API-Version"), "volume "); found && version != "latest" {
		return version
	}
	return volumeMaximum
}
