package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Percentiles of durations.
type Percentiles struct{ P50, P95, P99, Max time.Duration }

// percentiles computes percentiles by the nearest rank: each is a measured value.
func percentiles(all []time.Duration) Percentiles {
	if len(all) == 0 {
		return Percentiles{}
	}
	sorted := slices.Sorted(slices.Values(all))
	rank := func(percent int) time.Duration { return sorted[(len(sorted)*percent+99)/100-1] }
	return Percentiles{rank(50), rank(95), rank(99), sorted[len(sorted)-1]}
}

// usage is the resource usage since the start of the processes.
type usage struct {
	at            time.Time
	packets, sent int64
	cpu           time.Duration
	memory        int64
}

func (r *run) usage(ctx context.Context) (usage, error) {
	u := usage{at: time.Now(), sent: r.c.sent.Load()}
	var err error
	if r.Plain != "" {
		if u.packets, err = packets(ctx, r.Plain); err != nil {
			return u, fmt.Errorf("count the packets of ZooKeeper at %s: %w", r.Plain, err)
		}
	}
	if r.PID != 0 {
		if err := u.process(r.PID); err != nil {
			return u, fmt.Errorf("measure process %d: %w", r.PID, err)
		}
	}
	return u, nil
}

// packets returns the number of packets that ZooKeeper has received. It includes the few packets of mntr itself.
func packets(ctx context.Context, address string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "zk_packets_received\t"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no zk_packets_received in the response to mntr: %.80q", text)
}

// process reads the usage of a process from Linux: CPU is in hundredths of a second.
func (u *usage) process(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	for _, f := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return err
		}
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	u.memory = kilobytes(string(status), "RssAnon:")
	return nil
}

func kilobytes(status, name string) int64 {
	_, rest, _ := strings.Cut(status, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
}

func (r *run) summary(before, after usage) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.result
	s.Requests = len(r.latency)
	s.Latency, s.Gone = percentiles(r.latency), percentiles(r.gone)
	s.Memory = after.memory
	s.Rate = float64(s.Requests) / after.at.Sub(before.at).Seconds()
	if s.Requests > 0 {
		each := 1 / float64(s.Requests)
		s.Own = float64(after.sent-before.sent) * each
		if r.Plain != "" {
			s.Packets = float64(after.packets-before.packets) * each
		}
		s.CPU = (after.cpu - before.cpu).Seconds() * each * 1000
	}
	return s
}
