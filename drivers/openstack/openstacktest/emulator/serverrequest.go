package emulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// serverRequest is nova's schema of a new server, as far as a project member may use it.
type serverRequest struct {
	Server struct {
		Name         string            `json:"name"`
		Image        string            `json:"imageRef"`
		Flavor       flexible          `json:"flavorRef"`
		Metadata     map[string]string `json:"metadata"`
		AdminPass    string            `json:"adminPass"`
		Networks     json.RawMessage   `json:"networks"`
		Key          *string           `json:"key_name"`
		UserData     *string           `json:"user_data"`
		Zone         string            `json:"availability_zone"`
		ConfigDrive  any               `json:"config_drive"`
		DiskConfig   string            `json:"OS-DCF:diskConfig"`
		AccessIPv4   string            `json:"accessIPv4"`
		AccessIPv6   string            `json:"accessIPv6"`
		MinCount     flexible          `json:"min_count"`
		MaxCount     flexible          `json:"max_count"`
		Reservation  any               `json:"return_reservation_id"`
		Description  *string           `json:"description"`
		Hostname     string            `json:"hostname"`
		Tags         []string          `json:"tags"`
		Personality  []any             `json:"personality"`
		Certificates []string          `json:"trusted_image_certificates"`
		Groups       []struct {
			Name string `json:"name"`
		} `json:"security_groups"`
		Blocks []blockRequest `json:"block_device_mapping_v2"`
	} `json:"server"`
	Hints  map[string]any `json:"os:scheduler_hints"`
	Hints2 map[string]any `json:"OS-SCH-HNT:scheduler_hints"`
}

// blockRequest is one entry of block_device_mapping_v2.
type blockRequest struct {
	UUID        string   `json:"uuid"`
	Source      string   `json:"source_type"`
	Destination string   `json:"destination_type"`
	BootIndex   flexible `json:"boot_index"`
	Size        flexible `json:"volume_size"`
	VolumeType  string   `json:"volume_type"`
	Delete      any      `json:"delete_on_termination"`
	DeviceName  string   `json:"device_name"`
	DeviceType  string   `json:"device_type"`
	DiskBus     string   `json:"disk_bus"`
	GuestFormat string   `json:"guest_format"`
	NoDevice    any      `json:"no_device"`
	Tag         string   `json:"tag"`
}

// flexible is a string or number; nova's schemas accept both in some fields.
type flexible string

// UnmarshalJSON accepts both.
func (f *flexible) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	*f = flexible(strings.Trim(string(text), `"`))
	return nil
}

func (f flexible) number(otherwise int64) (int64, error) {
	if f == "" {
		return otherwise, nil
	}
	var n int64
	if _, err := fmt.Sscanf(string(f), "%d", &n); err != nil {
		return 0, badRequest("Invalid input for field/attribute. Value: %s. '%s' is not an integer", f, f)
	}
	return n, nil
}

// maxUserData is nova's limit on encoded user data in bytes.
const maxUserData = 65535

// check validates the request like the API's schema, before any lookup.
func (in *serverRequest) check(version micro) error {
	s := &in.Server
	switch {
	case strings.TrimSpace(s.Name) == "":
		return badRequest("Invalid input for field/attribute name. Value: %s. '%s' is too short", s.Name, s.Name)
	case len(s.Name) > 255:
		return badRequest("Invalid input for field/attribute name. Value: %s. '%s' is too long", s.Name, s.Name)
	case s.Flavor == "":
		return badRequest("Invalid input for field/attribute server. 'flavorRef' is a required property")
	case s.Networks == nil && version >= 37:
		return badRequest("Invalid input for field/attribute server. 'networks' is a required property")
	case s.Tags != nil && version < 52:
		return badRequest("Additional properties are not allowed ('tags' was unexpected)")
	case s.Description != nil && version < 19:
		return badRequest("Additional properties are not allowed ('description' was unexpected)")
	case s.Hostname != "" && version < 90:
		return badRequest("Additional properties are not allowed ('hostname' was unexpected)")
	case len(s.Metadata) > 128:
		return refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	for key, value := range s.Metadata {
		if len(key) > 255 || len(value) > 255 || key == "" {
			return badRequest("Invalid input for field/attribute %s. Value: %s. '%s' is too long", key, value, value)
		}
	}
	return checkUserData(s.UserData)
}

func checkUserData(text *string) error {
	if text == nil {
		return nil
	}
	if len(*text) > maxUserData {
		return badRequest("Invalid input for field/attribute user_data. Value: %s. '%s' is too long", (*text)[:32], (*text)[:32])
	}
	// As in Python's decoder, other characters than those of the alphabet are ignored.
	clean := strings.Map(func(r rune) rune {
		if r == '+' || r == '/' || r == '=' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, *text)
	if _, err := base64.StdEncoding.DecodeString(clean); err != nil {
		return badRequest("Invalid input for field/attribute user_data. Value: %s. '%s' is not a 'base64'", *text, *text)
	}
	return nil
}

func truthy(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true") || v == "1" || strings.EqualFold(v, "yes")
	}
	return false
}

func hostname(name, wanted string) string {
	if wanted != "" {
		return wanted
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == ' ', r == '_', r == '.':
			return '-'
		}
		return -1
	}, strings.ToLower(name))
	return strings.Trim(clean[:min(63, len(clean))], "-")
}
