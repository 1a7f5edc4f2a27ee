// Package zookeeper stores the state in ZooKeeper in Nodepool's own layout: requests, nodes, image builds and uploads
// are the znodes, JSON documents and locks that Zuul, Nodepool's launcher and its builder use. All of them and any
// number of npctl processes share the same records.
//
// Reads make no calls: a persistent recursive watch (ZooKeeper 3.6) reports every change, and the feed reads each
// changed znode once into a cache, which serves Get, List, Claimed and RegisteredPools. Each Commit writes one multi
// that depends on the expected versions and on the locks: a record that was claimed in a session that has ended cannot
// be written.
//
// Store is a facade of these parts, each of which owns its state:
//   - session: the connection, its end, and calls with a time limit.
//   - mirror: the cache, kept equal to the tree by events and reads; it serves all reads of shared records.
//   - locks: the contenders, claims and named locks of this process.
//   - transactions: builds the multi of a commit (write) from the cache and the locks, and applies its result.
//   - presence: the registrations of this process.
//   - installation, numbers, upkeep, privateRecords: npctl's own znodes, IDs, periodic removal, the private store.
//
// The documents (*json.go), paths and the cache are plain values without calls or locks.
//
// Number of calls to ZooKeeper: a commit makes one, also for unclaimed requests and nodes, because the same multi
// removes and recreates the lock directory (see fence.go); for unclaimed builds and uploads it makes two. A claim makes
// one call, its release one, and a change by another process one to read the content. A commit that also claims or
// releases the requests and nodes that it changes makes no further call: the same multi creates or deletes the
// contender.
//
// Rules on which the package relies:
//   - On one connection, ZooKeeper sends the events of a change before it answers any request that follows the change.
//     When the answer to a change of this process arrives, the cache therefore has all earlier changes or knows which
//     znodes it must read. To find the first contender for a lock, the store need not list the queue.
//   - Each change of a znode causes one event. The store counts events to separate its own changes from those of others.
//   - A znode keeps its content byte for byte, except for the keys with a new meaning.
//   - An unreadable record does not affect others: the store logs it, omits it from lists and does not change it.
//   - The kinds that concern one process only (provider, image, template, sighting, history, journal, audit, use) are kept in
//     a private store of this process. A Commit to both writes ZooKeeper first: a crash between the two loses only records
//     that npctl derives again (a provider or an image from the configuration, a sighting from the next listing) or that
//     are notes.
package zookeeper
