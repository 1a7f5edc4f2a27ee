package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// consoleBytes is the size of the returned console output.
const consoleBytes = 64 << 10

// ConsoleLog implements drivers.Console. EC2 stores the output a few minutes after the start and the end of an instance.
func (c *Cloud) ConsoleLog(ctx context.Context, id string) (string, error) {
	doing := "read console of instance " + id
	answer, err := c.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: aws.String(id)})
	if err != nil {
		return "", wrap(doing, err)
	}
	output, err := base64.StdEncoding.DecodeString(aws.ToString(answer.Output))
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return newestLines(strings.ToValidUTF8(string(output), "\uFFFD"), consoleBytes), nil
}

// newestLines returns the last lines of text.
func newestLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return strings.ToValidUTF8(text, "")
}
