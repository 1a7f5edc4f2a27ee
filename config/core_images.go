package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

var diskimageBlock = withLogin(withFirst(built(
	schema.Of[resources.Image]("An image that a builder creates. References to a block with `for_each` have the form `diskimage.name[\"key\"]`.", nil)),
	schema.Attribute{Name: "abstract", Type: cty.Bool, Default: no, Doc: "Whether the block is only a parent of other images and npctl never builds it."},
	schema.Attribute{Name: "parent", Type: schema.ImageRef,
		Doc: "Image from which the block inherits the attributes that it does not set, such as `diskimage.base`. Maps are merged, `elements` of the builder are appended to those of the parent, all other attributes of the block override the parent's."},
), schema.AppliedToNew, imageLogin)

var builderBlock = schema.Block{Doc: "How npctl builds the image. The label is the kind of builder. There is exactly one, here or in a parent."}

// zuulBuilder is the kind of the builder that downloads zuul_images. Its schema is part of the zuul_image block.
const zuulBuilder = "zuul"

var zuulImageBlock = withLogin(downloaded(
	schema.Of[resources.Image]("An image that a Zuul job builds. npctl queries Zuul for new successful builds, downloads the files of their artifacts, and uploads and keeps them in the same way as builds of a diskimage.", nil),
), schema.AppliedToNew, imageLogin)

// built sets the default that only images have that npctl builds.
func built(b schema.Block) schema.Block {
	b.Find("rebuild_age").Default = cty.StringVal("24h")
	return b
}

// downloaded changes the schema of an image that npctl builds to that of one that it downloads.
func downloaded(b schema.Block) schema.Block {
	b.Attributes = slices.DeleteFunc(b.Attributes, func(a schema.Attribute) bool { return a.Name == "rebuild_age" })
	timeout := b.Find("build_timeout")
	timeout.Default, timeout.Doc = cty.StringVal("4h"), "Time limit of the download of one build; `\"0s\"` means no limit."
	return b
}

// withFirst adds attributes that are no fields of the struct before the others.
func withFirst(b schema.Block, first ...schema.Attribute) schema.Block {
	b.Attributes = append(first, b.Attributes...)
	return b
}

// loginDefaults are the defaults of a login by the names of its attributes.
type loginDefaults map[string]string

// imageLogin has the defaults of images that npctl builds. It applies to the next build, upload and node; existing ones keep their login.
var imageLogin = loginDefaults{"username": "zuul", "python_path": "auto", "connection_type": "ssh"}

// withLogin sets the class and the defaults of the attributes of a resources.Login, which depend on the block, and moves them to the
// end.
func withLogin(b schema.Block, class schema.Class, defaults loginDefaults) schema.Block {
	var login, others []schema.Attribute
	for _, a := range b.Attributes {
		if _, ok := loginBlock.Lookup(a.Name); !ok {
			others = append(others, a)
			continue
		}
		a.Class = class
		if text, ok := defaults[a.Name]; ok {
			a.Default = cty.StringVal(text)
		}
		login = append(login, a)
	}
	b.Attributes = slices.Concat(others, login)
	return b
}

var loginBlock = schema.Of[resources.Login]("", nil)
