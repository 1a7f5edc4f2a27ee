package openstack

import (
	"context"
	"crypto/md5" //nolint:gosec // Glance's checksum
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// ReadImage implements drivers.Snapshotter. Reading ends with an error instead of io.EOF if the content does not
// match Glance's size or checksum.
func (st *imageStore) ReadImage(ctx context.Context, id string) (io.ReadCloser, resources.RemoteImage, error) {
	doing := "read image " + id
	found, ok, err := st.image(ctx, id)
	switch {
	case err != nil:
		return nil, resources.RemoteImage{}, fmt.Errorf("%s: %w", doing, err)
	case !ok:
		return nil, resources.RemoteImage{}, fmt.Errorf("%s: %w: the image does not exist", doing, drivers.ErrRejected)
	case found.Status != "active":
		return nil, resources.RemoteImage{}, fmt.Errorf("%s: it is %s, not active", doing, found.Status)
	case found.Size == 0:
		return nil, resources.RemoteImage{}, fmt.Errorf("%s: %w: it has no content; images of servers that boot from a volume have none", doing, drivers.ErrRejected)
	}
	content, err := st.openContent(ctx, doing, found)
	return content, found.remote(), err
}

// openContent requests the content. Like putContent, it does not use gophercloud's request, which would read the
// whole body.
func (st *imageStore) openContent(ctx context.Context, doing string, i image) (io.ReadCloser, error) {
	client, err := st.service(serviceImage)
	if err != nil {
		return nil, err
	}
	address := client.ServiceURL("images", url.PathEscape(i.ID), "file")
	for attempt := 1; ; attempt++ {
		token := st.provider.Token()
		stream, watch := watchStall(ctx)
		resp, err := st.getContent(stream, address, token)
		if err != nil {
			watch.stop()
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if resp.StatusCode == http.StatusOK {
			sum, want := sumOf(i)
			return &contentReader{ctx: stream, from: resp.Body, watch: watch, doing: doing, size: i.Size, sum: sum, want: want}, nil
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // used only in messages
		_ = resp.Body.Close()
		watch.stop()
		switch {
		case resp.StatusCode == http.StatusUnauthorized && attempt == 1:
			if err := st.provider.Reauthenticate(ctx, token); err != nil {
				return nil, wrap(doing+": renew token", err)
			}
		case resp.StatusCode == http.StatusNoContent:
			return nil, fmt.Errorf("%s: %w: it has no content", doing, drivers.ErrRejected)
		default:
			return nil, newAPIError(doing, resp.StatusCode, text, resp.Header)
		}
	}
}

func (st *imageStore) getContent(ctx context.Context, address, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/octet-stream")
	request.Header.Set("X-Auth-Token", token)
	request.Header.Set("User-Agent", st.provider.UserAgent.Join())
	resp, err := st.provider.HTTPClient.Do(request)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		err = cause // the transport does not know this cause
	}
	return resp, err
}

// sumOf returns the strongest checksum that Glance reports, and the hash that computes it.
func sumOf(i image) (hash.Hash, string) {
	switch {
	case i.HashAlgo == "sha512" && i.Hash != "":
		return sha512.New(), i.Hash
	case i.HashAlgo == "sha256" && i.Hash != "":
		return sha256.New(), i.Hash
	default:
		return md5.New(), i.Checksum //nolint:gosec // Glance's checksum
	}
}

// contentReader compares the content with the size and checksum that Glance reports.
type contentReader struct {
	ctx   context.Context //nolint:containedctx // the stream ends with its request
	from  io.ReadCloser
	watch *stallWatch
	doing string
	size  int64
	read  int64
	sum   hash.Hash
	want  string // "" when Glance reports none
}

func (r *contentReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.read += int64(n)
	r.sum.Write(p[:n])
	r.watch.reset(stallLimit)
	switch {
	case r.read > r.size:
		return 0, fmt.Errorf("%s: more than the %d bytes that Glance reports", r.doing, r.size)
	case errors.Is(err, io.EOF):
		return n, r.finish()
	case err != nil:
		if cause := context.Cause(r.ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		return n, fmt.Errorf("%s: after %d of %d bytes: %w", r.doing, r.read, r.size, err)
	default:
		return n, nil
	}
}

func (r *contentReader) finish() error {
	if r.read < r.size {
		return fmt.Errorf("%s: after %d of %d bytes: %w", r.doing, r.read, r.size, io.ErrUnexpectedEOF)
	}
	if got := hex.EncodeToString(r.sum.Sum(nil)); r.want != "" && !strings.EqualFold(got, r.want) {
		return fmt.Errorf("%s: the image was damaged in transfer: its checksum is %s, Glance reports %s", r.doing, got, r.want)
	}
	return io.EOF
}

// Close closes the connection, even before the end of the content.
func (r *contentReader) Close() error {
	r.watch.stop()
	return r.from.Close()
}
