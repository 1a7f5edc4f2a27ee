package emulator

import (
	"crypto/md5"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
)

// uploadImage receives the content in one pass. It stores only the size and checksums, and the content of small
// images.
func uploadImage(c *call) (*answer, error) {
	if kind := c.request.Header.Get("Content-Type"); kind != "application/octet-stream" {
		return nil, refuse(http.StatusUnsupportedMediaType, "The request media type %s is not supported by this server.", kind)
	}
	if err := c.beginUpload(); err != nil {
		return nil, err
	}
	seen, err := c.receive()
	if err != nil {
		if back := c.endUpload(nil); back != nil {
			c.cloud.options.Log.Error("emulator image stays in saving", "image", c.id(), "error", back)
		}
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, c.endUpload(seen)
}

// beginUpload moves the image from queued to saving, so that no second upload starts.
func (c *call) beginUpload() error {
	_, err := c.withImage(func(_ *cloudState, i *image) (*answer, error) {
		switch {
		case i.Status != "queued":
			return nil, refuse(http.StatusConflict, "Image status transition from %s to saving is not allowed", i.Status)
		case i.DiskFormat == "" || i.ContainerFormat == "":
			return nil, badRequest("Properties disk_format, container_format must be set prior to saving data.")
		}
		i.Status = "saving"
		i.touch(c.now)
		return nil, nil
	})
	return err
}

// digest computes the checksums, size and head of a content during its transfer.
type digest struct {
	md5, sha512 hash.Hash
	size        int64
	head        []byte // the first bytes, which identify the format
}

func (d *digest) Write(p []byte) (int, error) {
	if missing := 32 - len(d.head); missing > 0 {
		d.head = append(d.head, p[:min(missing, len(p))]...)
	}
	d.size += int64(len(p))
	_, _ = d.md5.Write(p) // hashes never fail
	_, _ = d.sha512.Write(p)
	return len(p), nil
}

// receive reads the whole body. A disconnected client, or a fault that emulates one, is an error.
func (c *call) receive() (*digest, error) {
	d := &digest{md5: md5.New(), sha512: sha512.New()}
	keep := c.cloud.contents.receive(c.id())
	defer keep.discard()
	var body io.Reader = c.request.Body
	announced := c.request.ContentLength
	_, cut := c.effect(CutUpload)
	if cut {
		body = io.LimitReader(body, max(announced, 2)/2)
	}
	if _, err := io.Copy(io.MultiWriter(d, keep), body); err != nil {
		return nil, errClientGone
	}
	if cut || (announced > 0 && d.size != announced) {
		return nil, errClientGone
	}
	return d, keep.commit()
}

// errClientGone ends a call without a response.
var errClientGone = errors.New("the connection broke in the middle of an upload")

// endUpload makes the image active, or queued again without a digest.
func (c *call) endUpload(d *digest) error {
	now := c.cloud.now()
	return c.cloud.store.update(now, func(w *cloudState) error {
		i, found := w.Images.byID[c.id()]
		if !found || i.Gone {
			return refuse(http.StatusGone, "Image %s could not be found after upload. The image may have been deleted during the upload, cleaning up the chunks uploaded.", c.id())
		}
		i.touch(now)
		if d == nil {
			i.Status = "queued"
			return nil
		}
		i.describe(d)
		if _, stuck := c.effect(StuckSaving); !stuck {
			w.schedule(now.Add(c.cloud.options.ImageTime), imageIsActive, i.ID, "")
		}
		return nil
	})
}

func (i *image) describe(d *digest) {
	size, virtual := d.size, d.virtualSize()
	sum, hashed, algo := hex.EncodeToString(d.md5.Sum(nil)), hex.EncodeToString(d.sha512.Sum(nil)), "sha512"
	i.Size, i.VirtualSize, i.Checksum, i.HashAlgo, i.HashValue = &size, &virtual, &sum, &algo, &hashed
}

// virtualSize returns the size in the header of a qcow2 image (docs/interop/qcow2.txt of QEMU).
func (d *digest) virtualSize() int64 {
	if len(d.head) == 32 && string(d.head[:4]) == "QFI\xfb" {
		return int64(binary.BigEndian.Uint64(d.head[24:32])) //nolint:gosec // an untrusted value may become negative
	}
	return d.size
}

func downloadImage(c *call) (*answer, error) {
	var i image
	_, err := c.withImage(func(_ *cloudState, found *image) (*answer, error) {
		i = *found
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	if i.Size == nil {
		return noContent()
	}
	content, err := c.cloud.contents.open(i.ID)
	if err != nil {
		return nil, refuse(http.StatusGone, "The emulator keeps the content of images up to %d bytes only.", c.cloud.options.KeepBytes)
	}
	a := &answer{status: http.StatusOK, stream: func(w http.ResponseWriter) {
		defer func() { _ = content.Close() }()
		w.WriteHeader(http.StatusOK)
		c.sendContent(w, content, *i.Size)
	}}
	return a.with("Content-Type", "application/octet-stream").with("Content-Length", strconv.FormatInt(*i.Size, 10)).
		with("Content-Md5", textOf(i.Checksum)), nil
}

// sendContent sends an image and applies faults. An error means that the client has disconnected.
func (by scope) sendContent(w io.Writer, content io.Reader, size int64) {
	if _, bent := by.effect(Corrupt); bent && size > 0 {
		first := make([]byte, 1)
		_, _ = io.ReadFull(content, first)
		first[0] ^= 0xff
		_, _ = w.Write(first)
	}
	if _, cut := by.effect(Truncate); cut {
		_, _ = io.CopyN(w, content, size/2)
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	_, _ = io.Copy(w, content)
}
