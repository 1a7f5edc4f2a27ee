package main

import (
	"fmt"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/state/migrate"
)

// printReport prints what a migration has moved.
func (c *migrateCommand) printReport(r migrate.Report) error {
	if c.json {
		r.FormatVersion = jsonVersion
		return c.printJSON(r)
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
		if err := c.ui.Print("%s", line); err != nil {
			return err
		}
	}
	return nil
}
