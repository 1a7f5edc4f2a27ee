package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// scriptWatched waits until the npctl watch at a socket is ready: watched SOCKET.
func scriptWatched(ts *testscript.TestScript, _ bool, args []string) {
	c, err := client.New(client.Options{Socket: ts.MkAbs(args[0])})
	ts.Check(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if ready, err := c.Ready(ctx); err == nil && ready {
			return
		}
	}
	ts.Fatalf("npctl watch at %s is not ready", args[0])
}

// scriptSetJSON sets an environment variable to a string in a JSON file, or to the first string of a list: setjson
// VARIABLE FILE NAME...
func scriptSetJSON(ts *testscript.TestScript, _ bool, args []string) {
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &value))
	for _, name := range args[2:] {
		switch inner := value.(type) {
		case map[string]any:
			value = inner[name]
		case []any:
			value = inner[0].(map[string]any)[name]
		}
	}
	text, ok := value.(string)
	if list, isList := value.([]any); isList && len(list) > 0 {
		text, ok = list[0].(string)
	}
	if !ok {
		ts.Fatalf("%v in %s is no string but %v", args[2:], args[1], value)
	}
	ts.Setenv(args[0], text)
}
