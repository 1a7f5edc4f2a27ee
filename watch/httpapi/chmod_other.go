//go:build !linux

package httpapi

// chmodUnbound does nothing: on these systems an unbound socket has no mode. The directory protects the socket until
// ListenUnix sets the mode of its file.
func chmodUnbound(int, uint32) error { return nil }
