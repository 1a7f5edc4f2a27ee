package aws

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/npctl/npctl/drivers/cloudkit"
)

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
	return cloudkit.Console(string(output)), nil
}
