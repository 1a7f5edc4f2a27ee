package exec

import "github.com/npctl/npctl/builders"

func report(job builders.Job, phase string, done, total int64) {
	if job.Progress != nil {
		job.Progress(phase, done, total)
	}
}
