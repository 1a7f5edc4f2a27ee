package emulator

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

type volume struct {
	base
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	SizeGB       int64             `json:"size_gb"`
	Status       string            `json:"status"`
	Bootable     bool              `json:"bootable"`
	ImageID      string            `json:"image_id"`
	Metadata     map[string]string `json:"metadata"`
	Zone         string            `json:"zone"`
	User         string            `json:"user"`
	Server       string            `json:"server"`
	Device       string            `json:"device"`
	AttachmentID string            `json:"attachment_id"`
	Attached     time.Time         `json:"attached"`
}

// volumeState holds the volumes. events and quotas are those of the cloud.
type volumeState struct {
	Volumes table[*volume] `json:"volumes"`

	events *timeline
	quotas *quotas
}

func (vs *volumeState) countVolume(v *volume, sign int64) {
	if v.Gone {
		return
	}
	u := vs.quotas.use(v.Project)
	u.volumes += sign
	u.gigabytes += sign * v.SizeGB
}

func (vs *volumeState) volumeEvent(v *volume, e event) {
	switch e.Kind {
	case volumeIsThere:
		if v.Status == "creating" {
			v.Status = "available"
			v.touch(e.At)
		}
	case volumeGoes:
		if !v.Gone {
			vs.countVolume(v, -1)
			retire(vs.events, &vs.Volumes, v, e.At, e.At)
		}
	}
}

func volumeLinks(base, project, id string) []linkView {
	root := base + roots[cinder]
	return []linkView{
		{"self", root + "/v3/" + project + "/volumes/" + id},
		{"bookmark", root + "/" + project + "/volumes/" + id},
	}
}

const longTime = "2006-01-02T15:04:05.000000"

func (c *call) volumeView(w *cloudState, v *volume) view {
	attachments := []view{}
	if v.Server != "" {
		attachments = append(attachments, view{
			"id": v.ID, "attachment_id": v.AttachmentID, "volume_id": v.ID, "server_id": v.Server, "host_name": nil,
			"device": v.Device, "attached_at": v.Attached.UTC().Format(longTime),
		})
	}
	metadata := v.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	out := view{
		"id": v.ID, "name": v.Name, "description": orNil(v.Description), "size": v.SizeGB, "status": v.Status,
		"bootable": "false", "metadata": metadata, "availability_zone": v.Zone, "user_id": v.User, "attachments": attachments,
		"created_at": v.Created.UTC().Format(longTime), "updated_at": v.Updated.UTC().Format(longTime), "links": volumeLinks(c.base(), c.who.project, v.ID),
		"volume_type": volumeTypeName, "snapshot_id": nil, "source_volid": nil, "replication_status": nil, "encrypted": false,
		"multiattach": false, "consistencygroup_id": nil,
	}
	if c.request.Method == http.MethodGet {
		out["os-vol-tenant-attr:tenant_id"] = v.Project
	}
	if v.Bootable {
		out["bootable"] = "true"
	}
	if i, found := w.Images.byID[v.ImageID]; found {
		out["volume_image_metadata"] = view{"image_id": i.ID, "image_name": i.Name, "disk_format": i.DiskFormat, "container_format": i.ContainerFormat}
	}
	return out
}

type volumeRequest struct {
	Volume struct {
		Name        *string           `json:"name"`
		Description *string           `json:"description"`
		Size        flexible          `json:"size"`
		Image       string            `json:"imageRef"`
		Metadata    map[string]string `json:"metadata"`
		Zone        string            `json:"availability_zone"`
	} `json:"volume"`
}

func createVolume(c *call) (*answer, error) {
	var in volumeRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	size, err := in.Volume.Size.number(0)
	if err != nil || size < 1 {
		return nil, badRequest("Invalid input received: Volume size '%s' must be an integer and greater than 0", in.Volume.Size)
	}
	var out view
	err = c.update(func(w *cloudState) error {
		if err := checkVolumeQuota(w, c.who.project, 1, size); err != nil {
			return err
		}
		v := &volume{SizeGB: size, Status: "creating", Metadata: in.Volume.Metadata, Zone: "nova", User: c.who.user}
		if in.Volume.Image != "" {
			i, found := w.Images.get(in.Volume.Image, c.now)
			if !found || !i.visible(c.who.project) {
				return badRequest("Invalid image identifier or unable to access requested image.")
			}
			v.ImageID, v.Bootable = i.ID, true
		}
		v.base = w.newBase(c.who.project, c.now)
		c.applyFault(&v.base)
		set(&v.Name, in.Volume.Name)
		set(&v.Description, in.Volume.Description)
		w.Volumes.add(v)
		w.countVolume(v, 1)
		w.schedule(startOf(&v.base, c.now), volumeIsThere, v.ID, "")
		out = c.volumeView(w, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return accepted(view{"volume": out})
}

// checkVolumeQuota returns quota errors with cinder's text.
func checkVolumeQuota(w *cloudState, project string, count, gigabytes int64) error {
	q, u := w.quota(project), w.use(project)
	if q.Gigabytes >= 0 && u.gigabytes+gigabytes > q.Gigabytes {
		return refuse(http.StatusRequestEntityTooLarge,
			"VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			gigabytes, q.Gigabytes, u.gigabytes)
	}
	if q.Volumes >= 0 && u.volumes+count > q.Volumes {
		return refuse(http.StatusRequestEntityTooLarge,
			"VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", q.Volumes)
	}
	return nil
}

func changeVolumeMetadata(c *call) (*answer, error) {
	var in struct {
		Metadata map[string]string `json:"metadata"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	return c.withVolume(func(_ *cloudState, v *volume) (*answer, error) {
		changed := map[string]string{}
		maps.Copy(changed, v.Metadata)
		maps.Copy(changed, in.Metadata)
		v.Metadata = changed
		return ok(view{"metadata": changed})
	})
}

func deleteVolume(c *call) (*answer, error) {
	return c.withVolume(func(w *cloudState, v *volume) (*answer, error) {
		if !slices.Contains([]string{"available", "error", "error_deleting", "deleting"}, v.Status) {
			return nil, badRequest("Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
		}
		v.Status = "deleting"
		v.touch(c.now)
		w.schedule(c.now.Add(c.cloud.options.DeleteTime), volumeGoes, v.ID, "")
		return accepted(nil)
	})
}

// detachVolume detaches a volume from a deleted server.
func (vs *volumeState) detachVolume(v *volume, remove bool, now time.Time) {
	v.Server, v.Device, v.AttachmentID, v.Status = "", "", "", "available"
	v.touch(now)
	if remove {
		vs.countVolume(v, -1)
		retire(vs.events, &vs.Volumes, v, now, now)
	}
}
