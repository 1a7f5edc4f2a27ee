package main

import (
	"fmt"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// migrationReport is the document that npctl state migrate -json prints.
type migrationReport struct {
	FormatVersion string `json:"format_version"`
	From          string `json:"from"`
	To            string `json:"to"`
	Lineage       string `json:"lineage"`
	DryRun        bool   `json:"dry_run,omitempty"`
	Nodes         int    `json:"nodes"`
	Uploads       int    `json:"uploads"`
	Builds        int    `json:"builds"`
	Private       int    `json:"private"`             // private records of one process
	There         int    `json:"unchanged,omitempty"` // written by an earlier run
	Verified      int    `json:"verified"`
	Requests      int    `json:"requests_dropped,omitempty"`
	LeftBehind    int    `json:"foreign,omitempty"` // records of other configurations
	Backup        string `json:"backup,omitempty"`
}

func (r *migrationReport) count(cargo []resources.Record, found comparison, private []resources.Record, requests int) {
	r.Nodes, r.Uploads, r.Builds = 0, 0, 0
	for _, record := range cargo {
		switch record.Key().Kind {
		case resources.KindNode:
			r.Nodes++
		case resources.KindUpload:
			r.Uploads++
		case resources.KindBuild:
			r.Builds++
		}
	}
	r.Private, r.There, r.Requests = len(private), found.equal, requests
}

func (r *migrationReport) print(c *migrateCommand) error {
	if c.json {
		return c.ui.printJSON(r)
	}
	verb := "Moved"
	if r.DryRun {
		verb = "Would move"
	}
	lines := []string{fmt.Sprintf("%s %s, %s and %s from %s to %s.", verb, text.Count(r.Nodes, "node", "nodes"), text.Count(r.Uploads, "upload", "uploads"),
		text.Count(r.Builds, "build", "builds"), visibleLine(r.From), visibleLine(r.To))}
	if r.There > 0 {
		lines = append(lines, fmt.Sprintf("%s there already, from an earlier run.", text.Count(r.There, "record was", "records were")))
	}
	if r.Requests > 0 {
		lines = append(lines, fmt.Sprintf("%s not moved: all of them have ended.", text.Count(r.Requests, "request was", "requests were")))
	}
	if r.LeftBehind > 0 {
		lines = append(lines, fmt.Sprintf("%s left where they are: their providers and images are not in this configuration.", text.Count(r.LeftBehind, "record is", "records are")))
	}
	if r.Backup != "" {
		lines = append(lines, fmt.Sprintf("The backup of the file is %s.", visibleLine(r.Backup)))
	}
	if !r.DryRun {
		lines = append(lines, fmt.Sprintf("All %d were read back and are the same. npctl plan should show no changes.", r.Verified))
	}
	for _, line := range lines {
		if err := c.ui.print("%s", line); err != nil {
			return err
		}
	}
	return nil
}
