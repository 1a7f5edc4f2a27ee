package sandboxcloud

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
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

func (w *world) countVolume(v *volume, sign int64) {
	if v.Gone {
		return
	}
	u := w.use(v.Project)
	u.volumes += sign
	u.gigabytes += sign * v.SizeGB
}

func (w *world) volumeEvent(v *volume, e event) {
	switch e.Kind {
	case volumeIsThere:
		if v.Status == "creating" {
			v.Status = "available"
			v.touch(e.At)
		}
	case volumeGoes:
		if !v.Gone {
			w.countVolume(v, -1)
			retire(w, &w.Volumes, v, e.At, e.At)
		}
	}
}

// detachVolume frees a volume of a server that has gone.
func (w *world) detachVolume(v *volume, remove bool, now time.Time) {
	v.Server, v.Device, v.AttachmentID, v.Status = "", "", "", "available"
	v.touch(now)
	if remove {
		w.countVolume(v, -1)
		retire(w, &w.Volumes, v, now, now)
	}
}

func volumeRoutes() []route {
	root := "/v3/{project}"
	return []route{
		{cinder, "GET", root + "/volumes", "volume.list", false, false, listVolumesBriefly},
		{cinder, "GET", root + "/volumes/detail", "volume.list", false, false, listVolumes},
		{cinder, "POST", root + "/volumes", "volume.create", false, false, createVolume},
		{cinder, "GET", root + "/volumes/{id}", "volume.show", false, false, showVolume},
		{cinder, "PUT", root + "/volumes/{id}", "volume.update", false, false, updateVolume},
		{cinder, "DELETE", root + "/volumes/{id}", "volume.delete", false, false, deleteVolume},
		{cinder, "POST", root + "/volumes/{id}/metadata", "volume.update", false, false, changeVolumeMetadata},
		{cinder, "GET", root + "/limits", "volume_limits.show", false, false, showVolumeLimits},
		{cinder, "GET", root + "/types", "volume_type.list", false, false, listVolumeTypes},
		{cinder, "GET", root + "/types/{id}", "volume_type.show", false, false, showVolumeType},
		{cinder, "GET", root + "/snapshots", "snapshot.list", false, false, emptyList("snapshots")},
		{cinder, "GET", root + "/snapshots/detail", "snapshot.list", false, false, emptyList("snapshots")},
		{cinder, "GET", root + "/backups/detail", "backup.list", false, false, emptyList("backups")},
		{cinder, "GET", root + "/os-availability-zone", "volume_zone.list", false, false, listVolumeZones},
		{cinder, "GET", root + "/os-quota-sets/{owner}", "volume_quota.show", false, false, showVolumeQuota},
		{cinder, "GET", root + "/os-quota-sets/{owner}/defaults", "volume_quota.show", false, false, showVolumeQuota},
		{cinder, "GET", root + "/extensions", "extension.list", false, false, emptyList("extensions")},
	}
}

func emptyList(name string) func(*call) (*answer, error) {
	return func(*call) (*answer, error) { return ok(view{name: []any{}}) }
}

const volumeTypeName = "sandbox"

func volumeTypeView() view {
	return view{
		"id": stableID("volume type"), "name": volumeTypeName, "is_public": true, "os-volume-type-access:is_public": true,
		"description": nil, "extra_specs": view{}, "qos_specs_id": nil,
	}
}

func listVolumeTypes(*call) (*answer, error) {
	return ok(view{"volume_types": []view{volumeTypeView()}})
}

func showVolumeType(c *call) (*answer, error) {
	if id := c.id(); id != stableID("volume type") && id != "default" {
		return nil, refuse(http.StatusNotFound, "Volume type %s could not be found.", id)
	}
	return ok(view{"volume_type": volumeTypeView()})
}

func listVolumeZones(*call) (*answer, error) {
	return ok(view{"availabilityZoneInfo": []view{{"zoneName": "nova", "zoneState": view{"available": true}}}})
}

func (c *call) volumeLinks(id string) []linkView {
	root := c.base() + roots[cinder]
	return []linkView{
		{"self", root + "/v3/" + c.who.project + "/volumes/" + id},
		{"bookmark", root + "/" + c.who.project + "/volumes/" + id},
	}
}

const longTime = "2006-01-02T15:04:05.000000"

func (c *call) volumeView(w *world, v *volume) view {
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
		"created_at": v.Created.UTC().Format(longTime), "updated_at": v.Updated.UTC().Format(longTime), "links": c.volumeLinks(v.ID),
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

func listVolumes(c *call) (*answer, error) {
	return c.answerVolumes(func(w *world, v *volume) any { return c.volumeView(w, v) })
}

func listVolumesBriefly(c *call) (*answer, error) {
	return c.answerVolumes(func(_ *world, v *volume) any { return briefView{v.ID, v.Name, c.volumeLinks(v.ID)} })
}

func (c *call) answerVolumes(show func(*world, *volume) any) (*answer, error) {
	limit, err := c.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	marker := c.query.Get("marker")
	views := []any{}
	var last string
	err = c.view(func(w *world) error {
		started := marker == ""
		for v := range w.Volumes.newestFirst(c.now) {
			if !c.owns(&v.base) {
				continue
			}
			if started && len(views) < limit && c.volumeFits(v) {
				views = append(views, show(w, v))
				last = v.ID
			}
			started = started || v.ID == marker
		}
		if !started {
			return refuse(http.StatusNotFound, "Volume %s could not be found.", marker)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	body := view{"volumes": views}
	if len(views) == limit && limit > 0 {
		body["volumes_links"] = []any{linkView{"next", c.nextURL(c.base()+c.request.URL.Path, last)}}
	}
	return ok(body)
}

func (c *call) volumeFits(v *volume) bool {
	has := func(name, value string) bool { return !c.query.Has(name) || c.query.Get(name) == value }
	return has("name", v.Name) && has("status", v.Status) && has("availability_zone", v.Zone)
}

func (c *call) findVolume(w *world, id string) (*volume, error) {
	v, found := w.Volumes.get(id, c.now)
	if !found || !c.owns(&v.base) {
		return nil, refuse(http.StatusNotFound, "Volume %s could not be found.", id)
	}
	return v, nil
}

// withVolume answers something about one volume.
func (c *call) withVolume(fn func(*world, *volume) (*answer, error)) (a *answer, err error) {
	run := c.update
	if c.request.Method == http.MethodGet {
		run = c.view
	}
	err = run(func(w *world) error {
		v, err := c.findVolume(w, c.id())
		if err != nil {
			return err
		}
		a, err = fn(w, v)
		return err
	})
	return a, err
}

func showVolume(c *call) (*answer, error) {
	return c.withVolume(func(w *world, v *volume) (*answer, error) { return ok(view{"volume": c.volumeView(w, v)}) })
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
	err = c.update(func(w *world) error {
		if err := c.roomForVolumes(w, 1, size); err != nil {
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
		c.bend(&v.base)
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

// roomForVolumes refuses in cinder's words.
func (c *call) roomForVolumes(w *world, count, gigabytes int64) error {
	q, u := w.quota(c.who.project), w.use(c.who.project)
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

func updateVolume(c *call) (*answer, error) {
	var in volumeRequest
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	return c.withVolume(func(w *world, v *volume) (*answer, error) {
		set(&v.Name, in.Volume.Name)
		set(&v.Description, in.Volume.Description)
		if in.Volume.Metadata != nil {
			v.Metadata = in.Volume.Metadata
		}
		v.touch(c.now)
		return ok(view{"volume": c.volumeView(w, v)})
	})
}

func changeVolumeMetadata(c *call) (*answer, error) {
	var in struct {
		Metadata map[string]string `json:"metadata"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	return c.withVolume(func(_ *world, v *volume) (*answer, error) {
		changed := map[string]string{}
		maps.Copy(changed, v.Metadata)
		maps.Copy(changed, in.Metadata)
		v.Metadata = changed
		return ok(view{"metadata": changed})
	})
}

func deleteVolume(c *call) (*answer, error) {
	return c.withVolume(func(w *world, v *volume) (*answer, error) {
		if !slices.Contains([]string{"available", "error", "error_deleting", "deleting"}, v.Status) {
			return nil, badRequest("Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
		}
		v.Status = "deleting"
		v.touch(c.now)
		w.schedule(c.now.Add(c.cloud.options.DeleteTime), volumeGoes, v.ID, "")
		return accepted(nil)
	})
}

func showVolumeLimits(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *world) error {
		q, u := w.quota(c.who.project), w.use(c.who.project)
		v = view{
			"maxTotalVolumes": q.Volumes, "maxTotalVolumeGigabytes": q.Gigabytes, "totalVolumesUsed": u.volumes,
			"totalGigabytesUsed": u.gigabytes, "maxTotalSnapshots": 10, "totalSnapshotsUsed": 0, "maxTotalBackups": 10,
			"totalBackupsUsed": 0, "maxTotalBackupGigabytes": 1000, "totalBackupGigabytesUsed": 0,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"limits": view{"rate": []any{}, "absolute": v}})
}

func showVolumeQuota(c *call) (*answer, error) {
	owner := c.request.PathValue("owner")
	if owner != c.who.project {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow volume_extension:quotas:show to be performed.")
	}
	detailed := strings.EqualFold(c.query.Get("usage"), "true")
	show := func(limit, used int64) any {
		if detailed {
			return view{"limit": limit, "in_use": used, "reserved": 0, "allocated": 0}
		}
		return limit
	}
	var v view
	err := c.view(func(w *world) error {
		q, u := w.quota(owner), w.use(owner)
		v = view{
			"id": owner, "volumes": show(q.Volumes, u.volumes), "gigabytes": show(q.Gigabytes, u.gigabytes),
			"snapshots": show(10, 0), "backups": show(10, 0), "backup_gigabytes": show(1000, 0), "groups": show(10, 0),
			"per_volume_gigabytes": show(-1, 0), "volumes_" + volumeTypeName: show(-1, 0),
			"gigabytes_" + volumeTypeName: show(-1, 0), "snapshots_" + volumeTypeName: show(-1, 0),
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"quota_set": v})
}

// attachments are compute's view of volumes on a server.

func attachmentView(c *call, s *server, a attached) view {
	v := view{"id": a.Volume, "volumeId": a.Volume, "serverId": s.ID, "device": a.Device}
	if c.micro >= 70 {
		v["tag"] = nil
	}
	if c.micro >= 79 {
		v["delete_on_termination"] = a.DeleteWithMachine
	}
	if c.micro >= 89 {
		delete(v, "id")
		v["attachment_id"], v["bdm_uuid"] = a.Volume, a.Volume
	}
	return v
}

func listAttachments(c *call) (*answer, error) {
	return c.withServer(func(_ *world, s *server) (*answer, error) {
		views := make([]view, 0, len(s.Volumes))
		for _, a := range s.Volumes {
			views = append(views, attachmentView(c, s, a))
		}
		return ok(view{"volumeAttachments": views})
	})
}

func attachVolume(c *call) (*answer, error) {
	var in struct {
		Attachment struct {
			Volume string `json:"volumeId"`
			Device string `json:"device"`
			Delete any    `json:"delete_on_termination"`
		} `json:"volumeAttachment"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	return c.withServer(func(w *world, s *server) (*answer, error) {
		v, err := c.findVolume(w, in.Attachment.Volume)
		if err != nil {
			return nil, err
		}
		if v.Status != "available" {
			return nil, badRequest("Invalid volume: Volume %s status must be available. Currently in %s", v.ID, v.Status)
		}
		v.Status, v.Server, v.AttachmentID, v.Attached = "in-use", s.ID, uuid.NewString(), c.now
		v.Device = "/dev/vd" + string(rune('b'+len(s.Volumes)))
		a := attached{v.ID, v.Device, truthy(in.Attachment.Delete)}
		s.Volumes = append(slices.Clone(s.Volumes), a)
		return ok(view{"volumeAttachment": attachmentView(c, s, a)})
	})
}

func detachVolume(c *call) (*answer, error) {
	return c.withServer(func(w *world, s *server) (*answer, error) {
		id := c.request.PathValue("volume")
		at := slices.IndexFunc(s.Volumes, func(a attached) bool { return a.Volume == id })
		if at < 0 {
			return nil, refuse(http.StatusNotFound, "Instance %s is not attached to volume %s", s.ID, id)
		}
		s.Volumes = slices.Delete(slices.Clone(s.Volumes), at, at+1)
		if v, found := w.Volumes.byID[id]; found {
			w.detachVolume(v, false, c.now)
		}
		return accepted(nil)
	})
}
