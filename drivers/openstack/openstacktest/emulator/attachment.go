package emulator

import (
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// attachmentView returns compute's representation of a volume on a server.
func attachmentView(version micro, s *server, a attached) view {
	v := view{"id": a.Volume, "volumeId": a.Volume, "serverId": s.ID, "device": a.Device}
	if version >= 70 {
		v["tag"] = nil
	}
	if version >= 79 {
		v["delete_on_termination"] = a.DeleteWithMachine
	}
	if version >= 89 {
		delete(v, "id")
		v["attachment_id"], v["bdm_uuid"] = a.Volume, a.Volume
	}
	return v
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
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
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
		return ok(view{"volumeAttachment": attachmentView(c.micro, s, a)})
	})
}

func detachVolume(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
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
