package render

import "github.com/npctl/npctl/internal/text"

// safe returns s as one line without characters that a terminal or a browser would interpret.
func safe(s string) string { return text.Line(s) }
