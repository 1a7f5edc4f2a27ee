package resources

// formatAliases maps names that Zuul and other tools use to npctl's names.
var formatAliases = map[string]string{"qcow": "qcow2", "vpc": "vhd", "tar.gz": "tgz"}

// ImageFormat returns npctl's name of an image format: qcow2 for qcow, vhd for vpc, tgz for tar.gz. All other names
// are returned unchanged.
func ImageFormat(name string) string {
	if alias, ok := formatAliases[name]; ok {
		return alias
	}
	return name
}

// ImageFormats returns npctl's names of image formats, see ImageFormat.
func ImageFormats(names []string) []string {
	var formats []string
	for _, name := range names {
		formats = append(formats, ImageFormat(name))
	}
	return formats
}
