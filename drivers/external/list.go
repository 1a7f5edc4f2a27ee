package external

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud.
func (c *cloud) List(ctx context.Context) ([]resources.Instance, error) {
	var list []resources.Instance
	err := c.call(ctx, request{Call: callList}, func(got response) error {
		if got.Instances == nil {
			return fmt.Errorf(`list: the response has no "instances"; without instances it is []`)
		}
		list = make([]resources.Instance, 0, len(*got.Instances))
		seen := make(map[string]bool, len(*got.Instances))
		for _, wire := range *got.Instances {
			i, err := wire.instance()
			if err == nil && seen[i.ID] {
				err = fmt.Errorf("two instances have the id %q", i.ID)
			}
			if err != nil {
				return fmt.Errorf("list: %w", err)
			}
			seen[i.ID] = true
			list = append(list, i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
