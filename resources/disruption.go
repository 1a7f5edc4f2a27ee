package resources

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Disruption limits how many ready nodes of a label, pool or provider npctl replaces at a time: a disruption budget. With a schedule
// it is active only while its window is open.
type Disruption struct {
	Max      string        `config:"max,required" doc:"The largest number of nodes that are replaced at a time, such as '3', or their share, such as '\"10%\"', of the nodes that are ready or being replaced. A share is rounded up. '0' means never."`
	Reasons  []string      `config:"reasons,nonempty" default:"" oneof:"configuration age surplus" doc:"The reasons for which the limit applies: 'configuration' (changed attributes), 'age' ('max_ready_age') and 'surplus' (more nodes than 'max_servers', or idle for 'idle_timeout'). The default is all of them."`
	Schedule string        `config:"schedule" doc:"Times at which a window opens, in the five fields of cron, such as '\"0 1 * * mon\"'. Outside of the windows npctl replaces no node for the reasons of the block. The default is no window: the limit always applies."`
	Duration time.Duration `config:"duration" doc:"Duration of the window, from '\"1m\"' to '\"366d\"'."`
	TimeZone string        `config:"time_zone" default:"UTC" doc:"IANA name of the time zone of 'schedule', such as '\"Europe/Berlin\"'."`
}

// DisruptionReason is a reason for which npctl replaces or deletes ready nodes within disruption budgets.
type DisruptionReason string

// The reasons.
const (
	DisruptionConfiguration DisruptionReason = "configuration"
	DisruptionAge           DisruptionReason = "age"
	DisruptionSurplus       DisruptionReason = "surplus"
)

// MaxNodes is the value of Disruption.Max: a number of nodes, or their share in percent.
type MaxNodes struct {
	Number int64
	Share  bool
}

// ParseMaxNodes reads a number such as 3, or a share such as 10%.
func ParseMaxNodes(text string) (MaxNodes, error) {
	digits, share := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case err != nil:
		return MaxNodes{}, fmt.Errorf("%q is no number of nodes and no share of them; write it like 3 or \"10%%\"", text)
	case share && n > 100:
		return MaxNodes{}, fmt.Errorf("%q is more than all nodes; the largest share is \"100%%\"", text)
	}
	return MaxNodes{int64(n), share}, nil
}

// Of returns the limit for a number of nodes. A share is rounded up.
func (m MaxNodes) Of(nodes int64) int64 {
	if m.Share {
		return (nodes*m.Number + 99) / 100
	}
	return m.Number
}
