package migrate

import "github.com/npctl/npctl/resources"

// Report states what a migration has moved, or would move. It is the document that npctl state migrate -json prints.
type Report struct {
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

func (r *Report) count(cargo []resources.Record, found comparison, private []resources.Record, requests int) {
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
