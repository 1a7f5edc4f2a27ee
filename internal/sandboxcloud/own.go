package sandboxcloud

// ownRoutes are not of any OpenStack: they tell how the sandbox itself is.
func ownRoutes() []route {
	return []route{
		{noneOf, "GET", "/{$}", "sandbox.index", true, false, frontPage},
		{noneOf, "GET", "/sandbox/calls", "sandbox.calls", true, false, showCalls},
		{noneOf, "DELETE", "/sandbox/calls", "sandbox.reset_calls", true, false, resetCalls},
	}
}

func frontPage(c *call) (*answer, error) {
	return ok(map[string]any{"sandbox": map[string]any{
		"auth_url": c.base() + "/identity/v3", "region": Region, "calls": c.base() + "/sandbox/calls",
	}})
}

// showCalls and resetCalls count themselves as little as a look at a meter counts.
func showCalls(c *call) (*answer, error) {
	calls := c.cloud.Calls()
	for _, own := range []string{"sandbox.calls", "sandbox.index", "sandbox.reset_calls"} {
		calls["total"] -= calls[own]
		delete(calls, own)
	}
	return ok(calls)
}

func resetCalls(c *call) (*answer, error) {
	c.cloud.ResetCalls()
	return noContent()
}
