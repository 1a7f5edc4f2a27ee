package external

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud.
func (c *cloud) List(ctx context.Context) ([]resources.Instance, error) {
	got, err := c.call(ctx, request{Call: callList})
	if err != nil {
		return nil, err
	}
	if got.Instances == nil {
		return nil, fmt.Errorf(`list: the response has no "instances"; without instances it is []`)
	}
	list := make([]resources.Instance, 0, len(*got.Instances))
	seen := make(map[string]bool, len(*got.Instances))
	for _, wire := range *got.Instances {
		i, err := wire.instance()
		if err == nil && seen[i.ID] {
			err = fmt.Errorf("two instances have the id %.100q", i.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		seen[i.ID] = true
		list = append(list, i)
	}
	return list, nil
}
