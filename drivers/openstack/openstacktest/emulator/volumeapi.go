package emulator

import (
	"net/http"
	"strings"
)

func volumeRoutes() []route {
	root := "/v3/{project}"
	return []route{
		{cinder, "GET", root + "/volumes/detail", "volume.list", false, false, listVolumes},
		{cinder, "POST", root + "/volumes", "volume.create", false, false, createVolume},
		{cinder, "GET", root + "/volumes/{id}", "volume.show", false, false, showVolume},
		{cinder, "DELETE", root + "/volumes/{id}", "volume.delete", false, false, deleteVolume},
		{cinder, "POST", root + "/volumes/{id}/metadata", "volume.update", false, false, changeVolumeMetadata},
		{cinder, "GET", root + "/limits", "volume_limits.show", false, false, showVolumeLimits},
		{cinder, "GET", root + "/types", "volume_type.list", false, false, listVolumeTypes},
		{cinder, "GET", root + "/os-availability-zone", "volume_zone.list", false, false, listVolumeZones},
		{cinder, "GET", root + "/os-quota-sets/{owner}", "volume_quota.show", false, false, showVolumeQuota},
		{cinder, "GET", root + "/os-quota-sets/{owner}/defaults", "volume_quota.show", false, false, showVolumeQuota},
	}
}

const volumeTypeName = "emulator"

func volumeTypeView() view {
	return view{
		"id": stableID("volume type"), "name": volumeTypeName, "is_public": true, "os-volume-type-access:is_public": true,
		"description": nil, "extra_specs": view{}, "qos_specs_id": nil,
	}
}

func listVolumeTypes(*call) (*answer, error) {
	return ok(view{"volume_types": []view{volumeTypeView()}})
}

func listVolumeZones(*call) (*answer, error) {
	return ok(view{"availabilityZoneInfo": []view{{"zoneName": "nova", "zoneState": view{"available": true}}}})
}

func listVolumes(c *call) (*answer, error) {
	return c.answerVolumes(func(w *cloudState, v *volume) any { return c.volumeView(w, v) })
}

func (c *call) answerVolumes(show func(*cloudState, *volume) any) (*answer, error) {
	limit, err := c.query.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	marker := c.query.Get("marker")
	views := []any{}
	var last string
	err = c.view(func(w *cloudState) error {
		started := marker == ""
		for v := range w.Volumes.newestFirst(c.now) {
			if !c.owns(&v.base) {
				continue
			}
			if started && len(views) < limit && c.query.volumeFits(v) {
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
		body["volumes_links"] = []any{linkView{"next", c.query.nextURL(c.base()+c.request.URL.Path, last)}}
	}
	return ok(body)
}

func (q query) volumeFits(v *volume) bool {
	has := func(name, value string) bool { return !q.Has(name) || q.Get(name) == value }
	return has("name", v.Name) && has("status", v.Status) && has("availability_zone", v.Zone)
}

func (by scope) findVolume(w *cloudState, id string) (*volume, error) {
	v, found := w.Volumes.get(id, by.now)
	if !found || !by.owns(&v.base) {
		return nil, refuse(http.StatusNotFound, "Volume %s could not be found.", id)
	}
	return v, nil
}

// withVolume responds to a request for one volume.
func (c *call) withVolume(fn func(*cloudState, *volume) (*answer, error)) (a *answer, err error) {
	run := c.update
	if c.request.Method == http.MethodGet {
		run = c.view
	}
	err = run(func(w *cloudState) error {
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
	return c.withVolume(func(w *cloudState, v *volume) (*answer, error) { return ok(view{"volume": c.volumeView(w, v)}) })
}

func showVolumeLimits(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *cloudState) error {
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
	err := c.view(func(w *cloudState) error {
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
