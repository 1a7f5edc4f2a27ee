// Package bolt is a state.Store that keeps npctl's records in one bbolt file, without a server.
//
// The file holds three buckets:
//
//	npctl    "head": schema, lineage, serial, role, hash key, ID sequences, number of locks and of records of each kind
//	records  one bucket for each kind, from ID to record
//	locks    from the name of a lock to its holder
//
// Every value has a checksum: revision (8 bytes), CRC-32C of bucket name, key, revision and content (4 bytes), content
// (JSON).
//
// While bbolt has a file open for writing, its lock excludes all other processes, even readers. The store therefore
// opens the file for each transaction and closes it afterwards, so that several processes can use it. A record in the
// locks bucket prevents two of them from applying at the same time. See
// docs/decisions/0002-bolt-opened-per-transaction.md.
//
// bbolt trusts its pages: a damaged page makes it panic, loop or overwrite live data. Therefore the store checks every
// page of a new version before a transaction (check.go), and converts the remaining panics into errors.
package bolt
