package awstest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Imports are the import tasks of EC2, which moto does not have. A task is active when it is first read and completed after
// that. Its zero value is usable. The responses follow the reference of the API.
type Imports struct {
	mu    sync.Mutex
	tasks []*task // guarded by mu

	// Stuck tasks stay active. Set it before the first call.
	Stuck bool
}

type task struct {
	id, snapshot, status, format, key string
	image                             string // "" for tasks that make only a snapshot
	tags                              map[string]string
	reads                             int
}

var snapshotID = regexp.MustCompile(`<snapshotId>(snap-\w+)</snapshotId>`)

// start reads the object, as EC2 does, and creates a snapshot in moto, and an AMI of it for ImportImage.
func (s *Imports) start(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	form, _ := FormOf(r)
	action, container := form.Get("Action"), "DiskContainer."
	if action == "ImportImage" {
		container = "DiskContainer.1."
	}
	bucket, key := form.Get(container+"UserBucket.S3Bucket"), form.Get(container+"UserBucket.S3Key")
	head := r.Clone(r.Context())
	head.Method, head.URL, head.Body, head.ContentLength = http.MethodHead, r.URL.JoinPath(bucket, key), nil, 0
	head.Header = http.Header{"Authorization": {strings.ReplaceAll(r.Header.Get("Authorization"), "/ec2/", "/s3/")}} // by which moto chooses the service
	object, err := next.RoundTrip(head)
	if err != nil {
		return nil, err
	}
	object.Body.Close()
	if object.StatusCode != http.StatusOK {
		return respond(r, http.StatusBadRequest, `<Response><Errors><Error><Code>InvalidParameter</Code><Message>The image import failed: the object does not exist</Message></Error></Errors><RequestID>1</RequestID></Response>`), nil
	}
	volume, err := s.call(next, r, url.Values{"Action": {"CreateVolume"}, "AvailabilityZone": {"us-east-1a"}, "Size": {"1"}}, regexp.MustCompile(`<volumeId>(vol-\w+)</volumeId>`))
	if err != nil {
		return nil, err
	}
	snapshot, err := s.call(next, r, url.Values{"Action": {"CreateSnapshot"}, "VolumeId": {volume}}, snapshotID)
	if err != nil {
		return nil, err
	}
	if _, err := s.call(next, r, url.Values{"Action": {"DeleteVolume"}, "VolumeId": {volume}}, regexp.MustCompile(`(true|DeleteVolume)`)); err != nil {
		return nil, err
	}
	t := &task{snapshot: snapshot, status: "active", format: form.Get(container + "Format"), key: key, tags: map[string]string{}}
	for n := 1; form.Has(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n)); n++ {
		t.tags[form.Get(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n))] = form.Get(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.id = fmt.Sprintf("import-%s-%08d", map[bool]string{false: "snap", true: "ami"}[action == "ImportImage"], len(s.tasks)+1)
	if action == "ImportImage" {
		t.image, err = s.call(next, r, url.Values{"Action": {"RegisterImage"}, "Name": {t.id}, "Architecture": {form.Get("Architecture")}, "RootDeviceName": {"/dev/sda1"},
			"BlockDeviceMapping.1.DeviceName": {"/dev/sda1"}, "BlockDeviceMapping.1.Ebs.SnapshotId": {snapshot}}, imageID)
		if err != nil {
			return nil, err
		}
	}
	s.tasks = append(s.tasks, t)
	return respond(r, http.StatusOK, `<`+action+`Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><importTaskId>`+t.id+`</importTaskId>`+t.detail()+`</`+action+`Response>`), nil
}

func (s *Imports) call(next http.RoundTripper, r *http.Request, form url.Values, result *regexp.Regexp) (string, error) {
	form.Set("Version", "2016-11-15")
	answer, err := next.RoundTrip(withForm(r, form))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	match := result.FindSubmatch(text)
	if err != nil || match == nil {
		return "", fmt.Errorf("%s: %s, %w", form.Get("Action"), text, err)
	}
	return string(match[1]), nil
}

// tag applies CreateTags and DeleteTags to the tasks among the resources, and passes the others on to moto.
func (s *Imports) tag(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	form, _ := FormOf(r)
	var others []string
	s.mu.Lock()
	for n := 1; form.Has(fmt.Sprintf("ResourceId.%d", n)); n++ {
		id := form.Get(fmt.Sprintf("ResourceId.%d", n))
		i := slices.IndexFunc(s.tasks, func(t *task) bool { return t.id == id })
		if form.Del(fmt.Sprintf("ResourceId.%d", n)); i < 0 {
			others = append(others, id)
			continue
		}
		for n := 1; form.Has(fmt.Sprintf("Tag.%d.Key", n)); n++ {
			if key := form.Get(fmt.Sprintf("Tag.%d.Key", n)); form.Get("Action") == "DeleteTags" {
				delete(s.tasks[i].tags, key)
			} else {
				s.tasks[i].tags[key] = form.Get(fmt.Sprintf("Tag.%d.Value", n))
			}
		}
	}
	s.mu.Unlock()
	if len(others) == 0 {
		action := form.Get("Action")
		return respond(r, http.StatusOK, `<`+action+`Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><return>true</return></`+action+`Response>`), nil
	}
	for n, id := range others {
		form.Set(fmt.Sprintf("ResourceId.%d", n+1), id)
	}
	return next.RoundTrip(withForm(r, form))
}

func (t *task) tagSet() string {
	text := "<tagSet>"
	for _, key := range slices.Sorted(maps.Keys(t.tags)) {
		text += "<item><key>" + key + "</key><value>" + t.tags[key] + "</value></item>"
	}
	return text + "</tagSet>"
}

func (t *task) detail() string {
	if t.image != "" {
		made := ""
		if t.status == "completed" {
			made = "<imageId>" + t.image + "</imageId><snapshotDetailSet><item><snapshotId>" + t.snapshot + "</snapshotId></item></snapshotDetailSet>"
		}
		return "<status>" + t.status + "</status>" + made + t.tagSet()
	}
	snapshot := ""
	if t.status == "completed" {
		snapshot = "<snapshotId>" + t.snapshot + "</snapshotId>"
	}
	return `<snapshotTaskDetail><format>` + t.format + `</format><status>` + t.status + `</status>` + snapshot + `<userBucket><s3Key>` + t.key + `</s3Key></userBucket></snapshotTaskDetail>` + t.tagSet()
}

// describe lists the tasks of one kind.
func (s *Imports) describe(r *http.Request) *http.Response {
	form, _ := FormOf(r)
	action, set := form.Get("Action"), "importSnapshotTaskSet"
	if action == "DescribeImportImageTasks" {
		set = "importImageTaskSet"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items := ""
	for _, t := range s.tasks {
		if wanted := form.Get("ImportTaskId.1"); (t.image != "") != (set == "importImageTaskSet") || wanted != "" && wanted != t.id {
			continue
		}
		if t.reads++; t.reads > 1 && t.status == "active" && !s.Stuck {
			t.status = "completed"
		}
		items += `<item><importTaskId>` + t.id + `</importTaskId>` + t.detail() + `</item>`
	}
	return respond(r, http.StatusOK, `<`+action+`Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><`+set+`>`+items+`</`+set+`></`+action+`Response>`)
}

func (s *Imports) cancel(r *http.Request) *http.Response {
	form, _ := FormOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.IndexFunc(s.tasks, func(t *task) bool { return t.id == form.Get("ImportTaskId") })
	if n >= 0 && s.tasks[n].status == "active" {
		s.tasks[n].status = "deleted"
	}
	return respond(r, http.StatusOK, `<CancelImportTaskResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><importTaskId>`+form.Get("ImportTaskId")+`</importTaskId><state>deleted</state></CancelImportTaskResponse>`)
}
