//go:build integration

package aws

import (
	"bytes"
	"encoding/json"
	"maps"
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

	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and an emptied moto behind a proxy.
type lab struct {
	*program.Place
	*program.Recorder
	imports   *awstest.Imports
	hasBucket bool
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	moto := os.Getenv("AWS_ENDPOINT_URL")
	if moto == "" {
		t.Fatal("AWS_ENDPOINT_URL is empty; run test/clouds/run.sh")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, moto+"/moto-api/reset", nil)
	testutil.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
	l := &lab{imports: &awstest.Imports{}}
	l.Recorder = &program.Recorder{Next: awstest.Moto{Next: http.DefaultTransport, Imports: l.imports}, Name: awstest.ActionOf}
	l.Place = program.NewPlace(t, npctl, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=secret-of-the-test", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ENDPOINT_URL="+(&gate.Gate{}).Serve(t, "aws", moto, l.Recorder))
	l.Secrets = []string{"secret-of-the-test"}
	l.Write(strings.ReplaceAll(configuration, "DIRECTORY", filepath.Join(l.Dir, "images")))
	return l
}

// cli runs the aws command, a client that others wrote, and decodes its output.
func (l *lab) cli(into any, args ...string) {
	l.T.Helper()
	cmd := exec.CommandContext(l.T.Context(), os.Getenv("NPCTL_TEST_AWS_CLI"), append(args, "--output", "json")...)
	cmd.Env = append(slices.Clone(l.Env), "AWS_ENDPOINT_URL="+os.Getenv("AWS_ENDPOINT_URL"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		l.T.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	if into != nil {
		testutil.Must(l.T, json.Unmarshal(text, into))
	}
}

// bucket is the bucket of configurations that import images.
const bucket = "npctl-images"

// owned returns the IDs of npctl's objects by kind: those of awstest.Owned, and in the bucket objects and unfinished uploads.
func (l *lab) owned() map[string][]string {
	l.T.Helper()
	ctx := l.T.Context()
	cfg, err := config.LoadDefaultConfig(ctx)
	testutil.Must(l.T, err)
	found, err := awstest.Owned(ctx, ec2.NewFromConfig(cfg))
	testutil.Must(l.T, err)
	if !l.hasBucket {
		return found
	}
	storage := s3.NewFromConfig(cfg)
	objects, err := storage.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	testutil.Must(l.T, err)
	for _, o := range objects.Contents {
		found["object"] = append(found["object"], aws.ToString(o.Key))
	}
	uploads, err := storage.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: aws.String(bucket)})
	testutil.Must(l.T, err)
	for _, u := range uploads.Uploads {
		found["upload"] = append(found["upload"], aws.ToString(u.UploadId))
	}
	return found
}

// mustHave checks the number of owned objects by kind.
func (l *lab) mustHave(want map[string]int) {
	l.T.Helper()
	if !l.has(want) {
		l.T.Errorf("objects with ownership tags are %v, want %v", l.owned(), want)
	}
}

func (l *lab) has(want map[string]int) bool {
	l.T.Helper()
	return maps.Equal(l.numbers(), want)
}

// numbers returns the number of owned objects by kind.
func (l *lab) numbers() map[string]int {
	l.T.Helper()
	numbers := map[string]int{}
	for kind, ids := range l.owned() {
		numbers[kind] = len(ids)
	}
	return numbers
}

// foreign creates an instance and a volume of another user and returns a check that they remain.
func (l *lab) foreign() (stay func()) {
	l.T.Helper()
	var instance []string
	l.cli(&instance, "ec2", "run-instances", "--image-id", image, "--instance-type", "t3.small",
		"--tag-specifications", "ResourceType=instance,Tags=[{Key=Name,Value=np0000000001}]", "--query", "Instances[].InstanceId")
	var volume struct {
		VolumeID string `json:"VolumeId"`
	}
	l.cli(&volume, "ec2", "create-volume", "--availability-zone", "us-east-1a", "--size", "1")
	return func() {
		l.T.Helper()
		var states []string
		l.cli(&states, "ec2", "describe-instances", "--instance-ids", instance[0], "--query", "Reservations[].Instances[].State.Name")
		if !slices.Equal(states, []string{"running"}) {
			l.T.Errorf("the instance of another user is %v", states)
		}
		l.cli(nil, "ec2", "describe-volumes", "--volume-ids", volume.VolumeID)
	}
}
