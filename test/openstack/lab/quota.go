package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// The names of the quotas that Quota sets. The limit -1 means no limit.
const (
	Instances   = "instances"
	Cores       = "cores"
	FloatingIPs = "floatingips"
)

// quotaLimit bounds one change, which takes about 1.5 seconds on an idle machine.
const quotaLimit = 3 * time.Minute

// Quota sets limits of a project ("npctl" or "other"). They apply at once and may be below the current usage. restore
// sets the generous default limits of the lab.
func (l *Lab) Quota(ctx context.Context, project string, limits map[string]int) (restore func() error, err error) {
	args := []string{project}
	for name, limit := range limits {
		args = append(args, fmt.Sprintf("%s=%d", name, limit))
	}
	slices.Sort(args[1:])
	if err := l.quota(ctx, args...); err != nil {
		return nil, err
	}
	// The ctx of a test may have ended when restore is called.
	return func() error { return l.quota(context.WithoutCancel(ctx), project, "reset") }, nil
}

func (l *Lab) quota(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(l.source, "quota.sh"), args...)
	cmd.Env = append(os.Environ(), EnvWork+"="+l.dir)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set quota %v: %w: %s", args, err, out)
	}
	return nil
}
