// Package bolt keeps npctl's records in one bbolt file that needs no server.
//
// The file holds three buckets:
//
//	npctl    "head": schema, lineage, serial, id sequences, number of records of each kind
//	records  one bucket for each kind, from id to record
//	locks    from the lock's name to who holds it
//
// Every value is sealed: revision (8 bytes), CRC-32C of kind, id, revision and content (4 bytes), content (JSON).
//
// bbolt locks its file exclusively for as long as it is open, even against readers. The store therefore opens the file
// for each transaction and closes it again, so that several processes can use it; what keeps two of them from applying
// at the same time is a record in the locks bucket. See docs/decisions/0002-bolt-opened-per-transaction.md.
//
// bbolt trusts its pages: a damaged one makes it panic, loop or overwrite live data. So no transaction begins before
// every page has been looked at (check.go), and whatever gets past that becomes an error, not a crash.
package bolt
