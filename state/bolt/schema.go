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
		Doc: "Keeps the state in one file. It needs no server, and suits one machine.",
		Attributes: []schema.Attribute{{
			Name:    "path",
			Doc:     "The file. A relative path starts at the configuration's directory. The file and its directory are made when they do not exist, for the user alone.",
			Type:    cty.String,
			Default: cty.StringVal(DefaultPath),
			Check:   checkPath,
		}},
	}
}

func checkPath(path cty.Value) error {
	if path.AsString() == "" {
		return errors.New("the path is empty: leave the attribute out for " + DefaultPath)
	}
	return nil
}
