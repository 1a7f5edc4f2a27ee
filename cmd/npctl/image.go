package main

import (
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
)

const imageDescription = `Shows and manages images: lists builds, uploads, failures and the time of the next build; builds,
uploads and removes an image now, or pauses its builds.

A command that changes something shows its plan and asks, as npctl apply does. Name a build by its id,
by the beginning of its id (at least 4 characters), or by the word "newest".

docs/images.md describes the life of an image.`

// imageCommand holds the options of the subcommands of npctl image.
type imageCommand struct {
	*app
	variableOptions
	json bool
}

func newImageCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "image", Category: categoryMain, Usage: "show, build, upload and remove images", Description: imageDescription,
		Commands: append([]*cli.Command{
			newImageListCommand(a), newImageShowCommand(a), newImageLogCommand(a),
			newImageBuildCommand(a), newImageUploadCommand(a), newImageDeleteCommand(a),
			newImagePauseCommand(a), newImageUnpauseCommand(a),
		}, newImageDecisionCommands(a)...),
	}
}

func (c *imageCommand) jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"}
}

// imagesDocument is the document that image list and image show print with -json.
type imagesDocument struct {
	Unread *failure        `json:"configuration_error,omitempty"` // set if Images comes from records only
	Images []inspect.Image `json:"images"`
}

func document(w imageState, facts []inspect.Image) imagesDocument {
	d := imagesDocument{Images: append([]inspect.Image{}, facts...)}
	if w.configError != nil {
		f := failureDocument(w.configError)
		d.Unread = &f
	}
	return d
}
