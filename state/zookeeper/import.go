package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/state"
)

// beginImport marks the state as importing. It replaces a state of another lineage only if npctl has never committed to
// that state.
func (in *installation) beginImport(ctx context.Context, h *head, version int32) error {
	if h == nil {
		return fmt.Errorf("%s was removed while npctl started", in.session.serverPath(ownDir))
	}
	if h.Lineage != in.opts.Lineage {
		_, stat, err := in.session.get(ctx, serialAt)
		if err != nil {
			return err
		}
		if stat.Version > 0 {
			return &LineageError{Where: in.opts.String(), Want: in.opts.Lineage, Have: h.Lineage}
		}
	}
	in.lineage = in.opts.Lineage
	if h.Lineage == in.opts.Lineage && h.Importing {
		return nil
	}
	h.Lineage, h.Importing, h.WrittenBy = in.opts.Lineage, true, in.opts.Version
	return in.writeHead(ctx, h, version)
}

func (in *installation) writeHead(ctx context.Context, h *head, version int32) error {
	_, _, err := in.session.multi(ctx, "write "+in.session.serverPath(ownDir), []any{&zk.SetDataRequest{Path: in.session.serverPath(ownDir), Data: asJSON(h), Version: version}})
	if errors.Is(err, zk.ErrBadVersion) {
		return fmt.Errorf("%s has changed: %w", in.session.serverPath(ownDir), state.ErrConflict)
	}
	return err
}

// endImport declares the import complete, which lets other processes open the state.
func (in *installation) endImport(ctx context.Context) error {
	if in.session.readOnly {
		return state.ErrReadOnly
	}
	h, version, err := in.readHead(ctx)
	if err != nil || h == nil || !h.Importing {
		return err
	}
	h.Importing = false
	return in.writeHead(ctx, h, version)
}

// beginExport starts an export and returns its ID. The ID stays the same until endExport, so that a process can
// distinguish an interrupted export from another one.
func (in *installation) beginExport(ctx context.Context) (id string, err error) {
	if in.session.readOnly {
		return "", state.ErrReadOnly
	}
	h, version, err := in.readHead(ctx)
	switch {
	case err != nil:
		return "", err
	case h == nil:
		return "", fmt.Errorf("%s was removed while npctl ran", in.session.serverPath(ownDir))
	case h.ExportID != "":
		return h.ExportID, nil
	}
	h.ExportID = uuid.NewString()
	return h.ExportID, in.writeHead(ctx, h, version)
}

// endExport ends an export that beginExport started.
func (in *installation) endExport(ctx context.Context) error {
	if in.session.readOnly {
		return state.ErrReadOnly
	}
	h, version, err := in.readHead(ctx)
	if err != nil || h == nil || h.ExportID == "" {
		return err
	}
	h.ExportID = ""
	return in.writeHead(ctx, h, version)
}
