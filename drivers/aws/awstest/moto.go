// Package awstest completes moto, the AWS server of the tests, with what npctl uses and moto 5.2 lacks.
package awstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ActionOf returns the name of an API call such as RunInstances and ListServiceQuotas, or its method and path.
func ActionOf(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, action, _ := strings.Cut(target, ".")
		return action
	}
	if form, ok := FormOf(r); ok {
		return form.Get("Action")
	}
	return r.Method + " " + r.URL.Path
}

// ChangeOf returns the action of a call that changes something, or "". The actions of S3 are a method and a path.
func ChangeOf(r *http.Request) string {
	action := ActionOf(r)
	if slices.ContainsFunc([]string{"Describe", "Get", "List", "GET ", "HEAD "}, func(verb string) bool { return strings.HasPrefix(action, verb) }) {
		return ""
	}
	return action
}

// FormOf reads the form in the body of a request and restores the body.
func FormOf(r *http.Request) (url.Values, bool) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") || r.Body == nil {
		return nil, false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	form, err := url.ParseQuery(string(body))
	return form, err == nil
}

// Moto is a transport to moto. It responds to ListServiceQuotas and to the calls of import tasks, and applies the tags of
// RegisterImage, which moto ignores. The root volume of an instance comes from the snapshot of its AMI, and a dedicated host has
// its instances, as in EC2.
type Moto struct {
	Next    http.RoundTripper
	Imports *Imports
}

// quotas are responses of ListServiceQuotas, by service, as its reference describes them.
var quotas = map[string]string{
	"ec2": `{"Quotas": [{"ServiceCode": "ec2", "QuotaCode": "L-1216C47A", "QuotaName": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "Value": 1920.0},
{"ServiceCode": "ec2", "QuotaCode": "L-8B27377A", "QuotaName": "Running Dedicated t3 Hosts", "Value": 2.0}]}`,
	"ebs": `{"Quotas": [{"ServiceCode": "ebs", "QuotaCode": "L-7A658B76", "QuotaName": "Storage for General Purpose SSD (gp3) volumes, in TiB", "Value": 50.0},
{"ServiceCode": "ebs", "QuotaCode": "L-B3A130E6", "QuotaName": "IOPS for Provisioned IOPS SSD (io1) volumes", "Value": 300000.0}]}`,
}

func quotasOf(r *http.Request) string {
	var in struct{ ServiceCode string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return err.Error()
	}
	return quotas[in.ServiceCode]
}

// RoundTrip implements http.RoundTripper.
func (m Moto) RoundTrip(r *http.Request) (*http.Response, error) {
	switch ActionOf(r) {
	case "ListServiceQuotas":
		return respond(r, http.StatusOK, quotasOf(r)), nil
	case "ImportSnapshot", "ImportImage":
		return m.Imports.start(m.Next, r)
	case "DescribeImportSnapshotTasks", "DescribeImportImageTasks":
		return m.Imports.describe(r), nil
	case "CancelImportTask":
		return m.Imports.cancel(r), nil
	case "CreateTags", "DeleteTags":
		return m.Imports.tag(m.Next, r)
	case "RunInstances":
		return m.run(r)
	case "RegisterImage":
		return m.register(r)
	case "DescribeHosts":
		return m.hosts(r)
	default:
		return m.Next.RoundTrip(r)
	}
}

// withForm returns a request with another form.
func withForm(r *http.Request, form url.Values) *http.Request {
	body := form.Encode()
	second := r.Clone(r.Context())
	second.Body, second.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return second
}

func (m Moto) run(r *http.Request) (*http.Response, error) {
	form, _ := FormOf(r)
	if image := form.Get("ImageId"); image != "" && form.Has("BlockDeviceMapping.1.DeviceName") {
		query := url.Values{"Action": {"DescribeImages"}, "ImageId.1": {image}}
		if snapshot, err := m.Imports.call(m.Next, r, query, snapshotID); err == nil {
			form.Set("BlockDeviceMapping.1.Ebs.SnapshotId", snapshot)
		}
	}
	return m.Next.RoundTrip(withForm(r, form))
}

func respond(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

var imageID = regexp.MustCompile(`<imageId>(ami-\w+)</imageId>`)

func (m Moto) register(r *http.Request) (*http.Response, error) {
	form, _ := FormOf(r)
	text, answer, err := m.read(r)
	match := imageID.FindSubmatch(text)
	if err != nil || match == nil {
		return answer, err
	}
	tags := url.Values{"Action": {"CreateTags"}, "Version": {"2016-11-15"}, "ResourceId.1": {string(match[1])}}
	for n := 1; form.Has(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n)); n++ {
		for _, part := range []string{"Key", "Value"} {
			tags.Set(fmt.Sprintf("Tag.%d.%s", n, part), form.Get(fmt.Sprintf("TagSpecification.1.Tag.%d.%s", n, part)))
		}
	}
	done, err := m.Next.RoundTrip(withForm(r, tags))
	if err != nil {
		return nil, err
	}
	done.Body.Close()
	return answer, nil
}

var (
	hostID         = regexp.MustCompile(`<hostId>(h-\w+)</hostId>`)
	instanceOnHost = regexp.MustCompile(`(?s)<instanceId>(i-\w+)</instanceId>.*?</placement>`)
)

// hosts adds the instances to the hosts of a response.
func (m Moto) hosts(r *http.Request) (*http.Response, error) {
	text, answer, err := m.read(r)
	if err != nil || !hostID.Match(text) {
		return answer, err
	}
	query := url.Values{"Action": {"DescribeInstances"}, "Version": {"2016-11-15"}, "Filter.1.Name": {"instance-state-name"}, "Filter.1.Value.1": {"running"}}
	instances, _, err := m.read(withForm(r, query))
	if err != nil {
		return nil, err
	}
	on := map[string]string{} // items by host
	for _, i := range instanceOnHost.FindAllSubmatch(instances, -1) {
		if host := hostID.FindSubmatch(i[0]); host != nil {
			on[string(host[1])] += "<item><instanceId>" + string(i[1]) + "</instanceId></item>"
		}
	}
	return respond(r, answer.StatusCode, hostID.ReplaceAllStringFunc(string(text), func(id string) string {
		return id + "<instances>" + on[hostID.FindStringSubmatch(id)[1]] + "</instances>"
	})), nil
}

// read makes a request, and returns the text of the response and the response, which can be read again.
func (m Moto) read(r *http.Request) ([]byte, *http.Response, error) {
	answer, err := m.Next.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return text, answer, err
}
