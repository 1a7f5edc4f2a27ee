package zookeeper

import (
	"errors"

	"github.com/npctl/npctl/resources"
)

// trialJSON is the document of a trial. Only npctl reads it.
type trialJSON struct {
	Trial *resources.Trial `json:"trial"`
}

func decodeTrial(p znodeRef, data []byte, _ int64) (record, base resources.Record, err error) {
	var doc trialJSON
	if err := unmarshal(data, &doc); err != nil {
		return nil, nil, err
	}
	if doc.Trial == nil {
		return nil, nil, errors.New("it has no trial")
	}
	t := *doc.Trial
	t.Upload = p.id
	return &t, &t, nil
}

func trialValues(r resources.Record) values { return values{{"trial", asJSON(r)}} }
