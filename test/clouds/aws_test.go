//go:build integration

package clouds

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/npctl/npctl/drivers"
	driver "github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/kill"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zuul/executor"
)

// ami is an image of moto.
const ami = "ami-12c6146b"

var amazon = cloud{
	open:    func(t *testing.T, configuration string) *lab { return newMoto(t, configuration).lab },
	node:    map[string]int{"instance": 1, "volume": 1},
	example: []string{"key_name=ci", "image=amzn-ami-hvm-2017.09.*", "image_owner=137112412989"},
	change:  `instance_types=["t3.medium"]`,
	changes: "instance_types",
	unknown: []unknown{
		{[]string{"key_name=cj", `instance_types=["t3.smal"]`}, []string{"t3.small", "did you mean ci?", "npctl.hcl"}},
		{[]string{"profile=absent"}, []string{"absent"}},
	},
	onDemand: `
npctl {
  leak_age = "1s"
  state "bolt" { path = "npctl.db" }
}
label "small" {}
provider "aws" "amazon" {
  rate = 100
  cloud_image "amazon" {
    filters         = { name = "amzn-ami-hvm-2017.09.*" }
    username        = "user"
    connection_port = 2222
  }
  pool "main" {
    host_key_checking = false
    label "small" {
      image              = cloud_image.amazon
      instance_types     = ["t3.small"]
      tags               = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`,
	// The search for leaks, which the daemon makes first and then once a minute, is not counted, as it is not for Nodepool.
	firstCall: "DescribeHosts",
	calls:     map[string]callsOf{"RunInstances": {100, 100}, "TerminateInstances": {1, 5}},
}

// moto is an emptied moto behind a proxy, with the key pair "ci".
type moto struct {
	*lab
	imports   *awstest.Imports
	hasBucket bool
}

func newMoto(t *testing.T, configuration string) *moto {
	t.Helper()
	url := os.Getenv("AWS_ENDPOINT_URL")
	if url == "" {
		t.Fatal("AWS_ENDPOINT_URL is empty; run test/clouds/run.sh")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/moto-api/reset", nil)
	testutil.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
	m := &moto{imports: &awstest.Imports{}}
	m.lab = &lab{peer: m, Recorder: &program.Recorder{Next: awstest.Moto{Next: http.DefaultTransport, Imports: m.imports}, Name: awstest.ActionOf}}
	m.Place = program.NewPlace(t, npctl, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=secret-of-the-test", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ENDPOINT_URL="+(&gate.Gate{}).Serve(t, "aws", url, m.Recorder))
	m.Secrets = []string{"secret-of-the-test"}
	m.Write(strings.ReplaceAll(configuration, "DIRECTORY", filepath.Join(m.Dir, "images")))
	m.cli(nil, "ec2", "create-key-pair", "--key-name", "ci")
	return m
}

// cli runs the aws command, a client that others wrote, and decodes its output.
func (m *moto) cli(into any, args ...string) {
	m.T.Helper()
	cmd := exec.CommandContext(m.T.Context(), os.Getenv("NPCTL_TEST_AWS_CLI"), append(args, "--output", "json")...)
	cmd.Env = append(slices.Clone(m.Env), "AWS_ENDPOINT_URL="+os.Getenv("AWS_ENDPOINT_URL"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		m.T.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	if into != nil {
		testutil.Must(m.T, json.Unmarshal(text, into))
	}
}

// bucket is the bucket of configurations that import images.
const bucket = "npctl-images"

// ids returns the IDs of npctl's objects by kind: those of awstest.Owned, and in the bucket objects and unfinished uploads.
func (m *moto) ids() map[string][]string {
	m.T.Helper()
	ctx := m.T.Context()
	cfg, err := config.LoadDefaultConfig(ctx)
	testutil.Must(m.T, err)
	found, err := awstest.Owned(ctx, ec2.NewFromConfig(cfg))
	testutil.Must(m.T, err)
	if !m.hasBucket {
		return found
	}
	storage := s3.NewFromConfig(cfg)
	objects, err := storage.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	testutil.Must(m.T, err)
	for _, o := range objects.Contents {
		found["object"] = append(found["object"], aws.ToString(o.Key))
	}
	uploads, err := storage.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: aws.String(bucket)})
	testutil.Must(m.T, err)
	for _, u := range uploads.Uploads {
		found["upload"] = append(found["upload"], aws.ToString(u.UploadId))
	}
	return found
}

func (m *moto) owned() map[string]int {
	m.T.Helper()
	numbers := map[string]int{}
	for kind, ids := range m.ids() {
		numbers[kind] = len(ids)
	}
	return numbers
}

func (m *moto) remove() {
	m.T.Helper()
	m.cli(nil, "ec2", "terminate-instances", "--instance-ids", m.ids()["instance"][0])
}

func (m *moto) changed() bool {
	m.T.Helper()
	var types []string
	m.cli(&types, "ec2", "describe-instances", "--filters", "Name=tag-key,Values=npctl_installation", "Name=instance-state-name,Values=running", "--query", "Reservations[].Instances[].InstanceType")
	return !slices.ContainsFunc(types, func(name string) bool { return name != "t3.medium" })
}

// foreign creates an instance and a volume of another user and returns a check that they remain.
func (m *moto) foreign() (stay func()) {
	m.T.Helper()
	var instance []string
	m.cli(&instance, "ec2", "run-instances", "--image-id", ami, "--instance-type", "t3.small",
		"--tag-specifications", "ResourceType=instance,Tags=[{Key=Name,Value=np0000000001}]", "--query", "Instances[].InstanceId")
	var volume struct {
		VolumeID string `json:"VolumeId"`
	}
	m.cli(&volume, "ec2", "create-volume", "--availability-zone", "us-east-1a", "--size", "1")
	return func() {
		m.T.Helper()
		var states []string
		m.cli(&states, "ec2", "describe-instances", "--instance-ids", instance[0], "--query", "Reservations[].Instances[].State.Name")
		if !slices.Equal(states, []string{"running"}) {
			m.T.Errorf("the instance of another user is %v", states)
		}
		m.cli(nil, "ec2", "describe-volumes", "--volume-ids", volume.VolumeID)
	}
}

// shows compares a node with what the aws command shows, and with its variables for Zuul's executor.
func (m *moto) shows(t *testing.T, n resources.Node) {
	t.Helper()
	host := executor.HostOf(t, n)
	for name, want := range map[string]any{"ansible_host": n.Addresses.Interface, "ansible_port": 2222.0, "ansible_user": "user", "ansible_ssh_common_args": "-o StrictHostKeyChecking=false"} {
		if host.Vars[name] != want { // without host_key_checking Zuul checks no keys
			t.Errorf("for Zuul's executor %s is %v, want %v", name, host.Vars[name], want)
		}
	}
	var instance []struct {
		PublicIPAddress string `json:"PublicIpAddress"`
		Tags            []struct{ Key, Value string }
	}
	m.cli(&instance, "ec2", "describe-instances", "--instance-ids", n.ExternalID, "--query", "Reservations[].Instances[]")
	if len(instance) != 1 || instance[0].PublicIPAddress != n.Addresses.PublicIPv4 || n.Region != "us-east-1" || n.Zone == "" {
		t.Fatalf("the aws command shows %+v, npctl %+v", instance, n)
	}
	for _, want := range []struct{ Key, Value string }{{"npctl_node_id", n.ID}, {"Name", "np" + n.ID}, {"purpose", "ci"}, {"requestor", "tester"}} {
		if !slices.Contains(instance[0].Tags, want) {
			t.Errorf("instance has tags %v, want %v", instance[0].Tags, want)
		}
	}
}

// fleet has a node of an image that is imported. The node is launched by a request for a fleet.
const fleet = `
npctl {
  images_dir = "DIRECTORY"
  state "bolt" { path = "npctl.db" }
}
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 1000000 /dev/urandom >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
label "blank" { min_ready = 1 }
provider "aws" "amazon" {
  rate = 0
  bucket = "` + bucket + `"
  image "blank" {
    import_method = "snapshot"
  }
  pool "main" {
    host_key_checking = false
    label "blank" {
      image          = diskimage.blank
      instance_types = ["t3.small"]
      allocation_strategy = "prioritized"
    }
  }
}
`

// TestKilledAtEveryCall kills an apply and a destroy before each changing call. drivers/aws has the kills of each method of uploads
// and launches, and reconcile those at commits.
func TestKilledAtEveryCall(t *testing.T) {
	m := newMoto(t, fleet)
	m.cli(nil, "s3api", "create-bucket", "--bucket", bucket)
	m.hasBucket = true
	stay := m.foreign()
	f := kill.Fleet{Dir: m.Dir, Drivers: map[string]drivers.Driver{"aws": driver.New()}, Changes: awstest.ChangeOf, OnlyCalls: true, OnlyBefore: true,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return awstest.Moto{Next: next, Imports: m.imports}
		}}
	// moto creates no tags of the volumes of fleets
	f.Everywhere(t, map[string]int{"instance": 1, "snapshot": 1, "image": 1, "template": 1}, m.owned)
	stay()
}
