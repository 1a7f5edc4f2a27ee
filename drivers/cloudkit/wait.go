package cloudkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/waits"
)

// MaxPause is the longest pause between two reads of a status, FirstPause the shortest.
const (
	FirstPause = 250 * time.Millisecond
	MaxPause   = 10 * time.Second
)

// Poll calls read until it is done or returns an error. what is for the error when ctx ends before.
func Poll(ctx context.Context, what string, read func() (done bool, err error)) error {
	for pause := FirstPause; ; pause = min(pause*2, MaxPause) {
		if done, err := read(); done || err != nil {
			return err
		}
		if err := waits.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
}

// IsFinal reports whether an error of a read ends a wait. Others are transient, and the work of the cloud continues.
func IsFinal(ctx context.Context, err error) bool {
	return err != nil && (errors.Is(err, drivers.ErrRejected) || ctx.Err() != nil)
}

// CleanUp removes the objects of a failed attempt, within a time limit and also if ctx has ended. It returns the error of the attempt,
// completed if objects remain; remains says so, such as "its disk was not deleted".
func CleanUp(ctx context.Context, limit time.Duration, attempt error, remains string, remove func(context.Context) error) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := remove(limited); err != nil {
		return fmt.Errorf("%w (%s: %w)", attempt, remains, err)
	}
	return attempt
}
