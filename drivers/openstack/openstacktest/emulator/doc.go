// Package emulator is an OpenStack for tests: identity v3, image v2, compute v2.1, network v2.0 and block storage v3.
// gophercloud, openstacksdk and the openstack command line cannot distinguish the parts that they use from the real
// services.
//
// Nothing is ever started: servers are rows in one state, kept in memory or in a JSON file that several processes may
// share. An operation that takes time in a real cloud is an event with a due time, and every access to the state first
// executes the due events, so no goroutine runs between calls.
//
// Faults can be scripted (see Fault): errors, lost responses, late effects and the other ways in which real services
// fail.
package emulator
