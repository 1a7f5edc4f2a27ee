// Package zookeeper is a store over ZooKeeper in Nodepool's own layout: requests, nodes, image builds and uploads are the
// znodes, JSON documents and locks that Zuul, Nodepool's launcher and its builder work with, so that all of them and
// any number of npctl processes meet in the same records.
//
// Reading costs nothing: a persistent recursive watch (ZooKeeper 3.6) tells of every change, and what changed is read
// once into a cache that Get, List, Claimed and Peers serve from. Writing is one multi for each Commit, conditional on
// the versions seen, and on the locks under which it is made: what was claimed in a session that has ended since cannot
// be written any more.
//
// What it costs, in calls to ZooKeeper: a commit one, also of requests and nodes that nobody has claimed, for which the lock's
// directory is removed and made again in the same multi (see bar); of builds and uploads that nobody has claimed two. A claim
// one, giving it back one, a change by somebody else one for its content, reading nothing. A commit that also claims or
// releases the requests and nodes that it changes costs no call more: the contender is created or deleted in the same multi.
//
// Rules that the rest of the package rests on:
//   - ZooKeeper sends the events of a change before it answers whatever comes after the change, on one connection.
//     So when the answer to an own change is there, the cache knows what was changed before it, or knows that it has to
//     look: who is first in the queue for a lock needs no listing of the queue.
//   - Each change of a znode makes one event. So the event of an own change is told from those of others by counting.
//   - A znode holds what it held before, byte for byte, except for the keys whose meaning is changed.
//   - What one cannot read harms nobody else: it is logged, left out, and left alone.
//   - The kinds that concern one process alone (provider, image, template, sighting, history, journal) are kept in a
//     private store of this process. A Commit of both writes ZooKeeper first: what a crash between the two loses is
//     derived again (a provider or an image from the configuration, a sighting by looking again) or is a note.
package zookeeper
