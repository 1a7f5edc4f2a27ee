package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func unmarshal(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%q is no JSON: %v", text, err)
	}
}

// holdForEver takes the state lock without ever releasing it. The end of ctx closes the connection, as the death of the
// process would.
func holdForEver(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	const body = `{"name":"state","holder":{"id":"","operation":"apply","who":"","host":"","pid":1,"since":"2026-01-01T00:00:00Z","version":""}}`
	if _, err := fmt.Fprintf(conn, "POST /v1/store/locks HTTP/1.1\r\nHost: npctl\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return err
	}
	answer := bufio.NewReader(conn)
	for {
		line, err := answer.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.Contains(line, `"locked"`) {
			go func() { _, _ = io.Copy(io.Discard, answer) }()
			return nil
		}
	}
}
