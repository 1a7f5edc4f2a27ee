package bolt

import (
	"errors"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// DefaultPath is the default path of the state, relative to the directory of the configuration.
const DefaultPath = "npctl.db"

// Schema describes the `state "bolt"` block.
func Schema() schema.Block {
	return schema.Block{
		Doc: "Keeps the state in one file on one machine, without a server.",
		Attributes: []schema.Attribute{{
			Name:    "path",
			Doc:     "Path of the file. A relative path is relative to the configuration directory. npctl creates the file and its directory if they do not exist, with access for the user only.",
			Type:    cty.String,
			Default: cty.StringVal(DefaultPath),
			Check:   checkPath,
		}},
	}
}

func checkPath(path cty.Value) error {
	if path.AsString() == "" {
		return errors.New("the path is empty: omit the attribute for " + DefaultPath)
	}
	return nil
}
