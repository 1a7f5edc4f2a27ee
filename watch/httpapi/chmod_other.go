//go:build !linux

package httpapi

// chmodUnbound does nothing where a socket without a file has no mode; its directory guards it until the file has one.
func chmodUnbound(int, uint32) error { return nil }
