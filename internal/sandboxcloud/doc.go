// Package sandboxcloud is an OpenStack that lives inside npctl: identity v3, image v2, compute v2.1, network v2.0 and
// block storage v3, near enough to the real services that gophercloud, openstacksdk and the openstack command line
// cannot tell the difference in what they use.
//
// Nothing is ever started: servers are rows in one state, kept in memory or in a JSON file that several processes may
// share. What takes time in a real cloud is an event with a due time, and every look at the state first settles the
// events that are due, so no goroutine runs between calls.
//
// Faults can be scripted (see Fault): errors, lost answers, late effects and the other ways in which real services
// misbehave.
package sandboxcloud
