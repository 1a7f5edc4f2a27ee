package emulator

import (
	"net/http"
)

func listMembers(c *call) (*answer, error) {
	return c.withImage(func(*cloudState, *image) (*answer, error) {
		return ok(view{"members": []any{}, "schema": "/v2/schemas/members"})
	})
}

func showImportInfo(*call) (*answer, error) {
	return ok(view{"import-methods": view{"description": "Import methods available.", "type": "array", "value": []string{}}})
}

func showStores(*call) (*answer, error) {
	return nil, refuse(http.StatusNotFound, "Multi backend is not supported at this site.")
}

func showImageSchema(*call) (*answer, error) { return ok(imageSchema()) }

func showImagesSchema(*call) (*answer, error) {
	return ok(view{
		"name": "images",
		"properties": view{
			"images": view{"type": "array", "items": imageSchema()}, "first": view{"type": "string"},
			"next": view{"type": "string"}, "schema": view{"type": "string"},
		},
		"links": []view{{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}, {"rel": "describedby", "href": "{schema}"}},
	})
}

func imageSchema() view {
	text := func() view { return view{"type": []string{"null", "string"}} }
	number := func() view { return view{"type": []string{"null", "integer"}} }
	format := func(values []string) view { return view{"type": []string{"null", "string"}, "enum": values} }
	return view{
		"name": "image",
		"properties": view{
			"id": view{"type": "string"}, "name": text(), "status": view{"type": "string", "readOnly": true},
			"visibility": view{"type": "string", "enum": visibilities}, "protected": view{"type": "boolean"},
			"os_hidden": view{"type": "boolean"}, "owner": text(), "checksum": text(), "os_hash_algo": text(),
			"os_hash_value": text(), "size": number(), "virtual_size": number(), "container_format": format(containerFormats),
			"disk_format": format(diskFormats), "min_disk": view{"type": "integer"}, "min_ram": view{"type": "integer"},
			"tags":       view{"type": "array", "items": view{"type": "string", "maxLength": 255}},
			"created_at": view{"type": "string"}, "updated_at": view{"type": "string"}, "self": view{"type": "string"},
			"file": view{"type": "string"}, "schema": view{"type": "string"},
		},
		"additionalProperties": view{"type": "string"},
		"links": []view{
			{"rel": "self", "href": "{self}"}, {"rel": "enclosure", "href": "{file}"}, {"rel": "describedby", "href": "{schema}"},
		},
	}
}
