package emulator

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Operations with the same path that differ in their bodies.
const (
	serverActions   = "server.action"
	serverSnapshots = "server.snapshot"
)

// taskSnapshot is a server's task during a snapshot.
const taskSnapshot = "image_snapshot"

// snapshot is createImage: the image exists at once, with the properties of the server's image, and has its content
// later.
func (c *call) snapshot(w *cloudState, s *server, body json.RawMessage) (*answer, error) {
	var in struct {
		Name     string            `json:"name"`
		Metadata map[string]string `json:"metadata"`
	}
	if err := strictJSON(body, &in); err != nil {
		return nil, badRequest("%s", jsonMistake(err))
	}
	switch {
	case strings.TrimSpace(in.Name) == "":
		return nil, badRequest("Invalid input for field/attribute name. Value: %s. '%s' is too short", in.Name, in.Name)
	case s.Status != "ACTIVE" && s.Status != "SHUTOFF":
		return nil, refuse(http.StatusConflict, "Cannot 'createImage' instance %s while it is in vm_state %s", s.ID, vmState(s.Status))
	case s.Task != "":
		return nil, refuse(http.StatusConflict, "Cannot 'createImage' instance %s while it is in task_state %s", s.ID, s.Task)
	case s.Image == "":
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:create_image:allow_volume_backed to be performed.")
	}
	i := c.newSnapshot(w, s, in.Name, in.Metadata)
	w.Images.add(i)
	s.Task = taskSnapshot
	s.touch(c.now)
	failing := ""
	if _, fails := c.effect(ServerError); fails {
		failing = "!"
	}
	if _, stuck := c.effect(StuckSaving); !stuck {
		w.schedule(startOf(&i.base, c.now).Add(c.cloud.options.ImageTime), imageSaved, i.ID, failing+s.ID)
	}
	if c.micro >= 45 {
		return accepted(view{"image_id": i.ID})
	}
	a, err := accepted(nil)
	return a.with("Location", c.base()+roots[imaging]+"/images/"+i.ID), err
}

func (c *call) newSnapshot(w *cloudState, s *server, name string, metadata map[string]string) *image {
	i := &image{
		base: w.newBase(s.Project, c.now), Name: name, HasName: true, Status: "queued", Visibility: "private", DiskFormat: "raw",
		ContainerFormat: "bare", Properties: map[string]string{},
	}
	c.applyFault(&i.base)
	from, found := w.Images.byID[s.Image]
	if found {
		maps.Copy(i.Properties, from.Properties)
		i.MinRAM = from.MinRAM
	}
	maps.Copy(i.Properties, map[string]string{
		"image_type": "snapshot", "instance_uuid": s.ID, "user_id": c.who.user, "base_image_ref": s.Image, "owner_id": s.Project,
	})
	maps.Copy(i.Properties, metadata)
	if f, found := w.Flavors.byID[s.Flavor]; found {
		i.MinDisk = f.Disk
	}
	c.copyDisk(i, s, from)
	return i
}

// copyDisk sets the content of the snapshot to that of the server's image, since no machine has changed it. If the
// emulator has not kept that content, it creates a small raw image that names the server.
func (c *call) copyDisk(i *image, s *server, from *image) {
	content, err := c.cloud.contents.read(from, c.cloud.options.KeepBytes)
	if err == nil {
		i.DiskFormat = from.DiskFormat
	} else {
		content = fmt.Appendf(nil, "snapshot of server %s (%s), made from image %s\n", s.Name, s.ID, s.Image)
		content = append(content, make([]byte, 64<<10-len(content))...)
	}
	d := &digest{md5: md5.New(), sha512: sha512.New()}
	keep := c.cloud.contents.receive(i.ID)
	defer keep.discard()
	_, _ = io.MultiWriter(d, keep).Write(content) // neither fails; commit reports content that could not be kept
	if err := keep.commit(); err != nil {
		c.cloud.options.Log.Error("content of an emulator snapshot is lost", "image", i.ID, "error", err)
	}
	i.describe(d)
}

func (k *contents) read(i *image, limit int64) ([]byte, error) {
	if i == nil {
		return nil, io.EOF
	}
	content, err := k.open(i.ID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	var all bytes.Buffer
	_, err = io.Copy(&all, io.LimitReader(content, limit+1))
	return all.Bytes(), err
}

// snapshotEvent ends the creation of an image. If the server was deleted in the meantime, or a fault requires it, the
// image is deleted.
func (w *cloudState) snapshotEvent(i *image, e event) {
	id, failed := strings.CutPrefix(e.Text, "!")
	s, there := w.Servers.byID[id]
	if there && s.Task == taskSnapshot {
		s.Task = ""
		s.touch(e.At)
	}
	if failed || !there || s.Gone {
		retire(&w.timeline, &w.Images, i, e.At, time.Time{})
		return
	}
	i.Status = "active"
	i.touch(e.At)
}
