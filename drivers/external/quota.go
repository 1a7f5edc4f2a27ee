package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/npctl/npctl/resources"
)

// Quota implements drivers.Cloud. A program without this call has no limits.
func (c *cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := ctx.Err(); err != nil {
		return resources.Quota{}, err
	}
	if !c.description.can(callQuota) {
		return resources.Quota{Limit: resources.NoLimits()}, nil
	}
	var quota resources.Quota
	err := c.call(ctx, request{Call: callQuota}, func(got response) (err error) {
		if quota, err = got.Quota.quota(); err != nil {
			return fmt.Errorf("quota: %w", err)
		}
		return nil
	})
	return quota, err
}

// quota converts the quota of a response. A limit without a value is unlimited.
func (q *quotaJSON) quota() (resources.Quota, error) {
	result := resources.Quota{Limit: resources.NoLimits()}
	if q == nil {
		return result, errors.New(`the response has no "quota"`)
	}
	result.Used = q.Used
	if len(q.Limit) > 0 {
		if err := json.Unmarshal(q.Limit, &result.Limit); err != nil {
			return result, fmt.Errorf("limit: %w", err)
		}
	}
	return result, nil
}
