package resources

// formatAliases are names that Zuul and others use.
var formatAliases = map[string]string{"qcow": "qcow2", "vpc": "vhd", "tar.gz": "tgz"}

// ImageFormat returns npctl's name of an image format: qcow is qcow2, vpc is vhd, tar.gz is tgz, others have one name.
func ImageFormat(name string) string {
	if alias, ok := formatAliases[name]; ok {
		return alias
	}
	return name
}

// ImageFormats is ImageFormat for each of them.
func ImageFormats(names []string) []string {
	var formats []string
	for _, name := range names {
		formats = append(formats, ImageFormat(name))
	}
	return formats
}
