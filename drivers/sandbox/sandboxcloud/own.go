package sandboxcloud

// ownRoutes belong to the sandbox and not to an OpenStack API: they report the state of the sandbox.
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

// showCalls omits the sandbox's own routes from the counts.
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
