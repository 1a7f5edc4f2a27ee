package drivers_test

import (
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func TestOwnerIsThatOfTheObjectItself(t *testing.T) {
	tags := func(kind resources.Kind, object string) map[string]string {
		values := drivers.EncodeTags(resources.OwnerTags{Installation: "here", Kind: kind, ID: "1"})
		if object != "" {
			values[drivers.TagObject] = object
		}
		return values
	}
	for name, test := range map[string]struct {
		tags map[string]string
		of   drivers.ObjectType
		ids  []string
		ours bool
	}{
		"a server":                        {tags(resources.KindNode, "i-1"), drivers.OfServer, []string{"i-1"}, true},
		"by its client token":             {tags(resources.KindNode, "token"), drivers.OfServer, []string{"i-1", "token"}, true},
		"a result of an import":           {tags(resources.KindUpload, "ami-1 snap-1"), drivers.OfImage, []string{"snap-1"}, true},
		"a name in another case":          {tags(resources.KindNode, "np1-ab"), drivers.OfServer, []string{"NP1-AB"}, true},
		"of an older npctl":               {tags(resources.KindNode, ""), drivers.OfServer, []string{"i-1"}, true},
		"a server of a build":             {tags(resources.KindBuild, "i-1"), drivers.OfServer, []string{"i-1"}, true},
		"an image of a build":             {tags(resources.KindBuild, ""), drivers.OfImage, []string{"ami-1"}, true},
		"a volume of an upload":           {tags(resources.KindUpload, ""), drivers.OfAny, []string{"disk"}, true},
		"a copy":                          {tags(resources.KindNode, "i-1"), drivers.OfServer, []string{"i-2"}, false},
		"a part of the ID":                {tags(resources.KindNode, "i-12"), drivers.OfServer, []string{"i-1"}, false},
		"an object without an ID":         {tags(resources.KindNode, "i-1"), drivers.OfServer, []string{""}, false},
		"an image of a node":              {tags(resources.KindNode, ""), drivers.OfImage, []string{"ami-1"}, false},
		"a server of an upload":           {tags(resources.KindUpload, ""), drivers.OfServer, []string{"i-1"}, false},
		"an object without ownership tag": {map[string]string{drivers.TagObject: "i-1"}, drivers.OfServer, []string{"i-1"}, false},
	} {
		if owner := drivers.OwnerOf(test.tags, test.of, test.ids...); (owner.Installation != "") != test.ours {
			t.Errorf("%s: owner is %+v, ours: %t", name, owner, test.ours)
		}
	}
}
