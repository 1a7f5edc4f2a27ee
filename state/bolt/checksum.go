package bolt

import (
	"encoding/binary"
	"hash/crc32"

	// The planned encoding/json/v2 of the standard library, by the same authors. It decodes a record in 4.3 µs;
	// encoding/json takes 11.5 µs.
	jsonv2 "github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const checksumSize = 12 // bytes of revision and checksum before the content

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// addChecksum prepends the revision and a checksum to the content of a value. bbolt has no checksums for values.
func addChecksum(bucket, key []byte, revision state.Revision, content []byte) []byte {
	value := make([]byte, checksumSize, checksumSize+len(content))
	binary.BigEndian.PutUint64(value, uint64(revision))
	value = append(value, content...)
	binary.BigEndian.PutUint32(value[8:], checksum(bucket, key, value))
	return value
}

// verifyChecksum returns the revision and the content, which is a slice of value.
func verifyChecksum(bucket, key, value []byte) (state.Revision, []byte, error) {
	if len(value) < checksumSize {
		return 0, nil, damage("%s/%s is truncated", bucket, key)
	}
	if binary.BigEndian.Uint32(value[8:]) != checksum(bucket, key, value) {
		return 0, nil, damage("%s/%s does not match its checksum", bucket, key)
	}
	return state.Revision(binary.BigEndian.Uint64(value)), value[checksumSize:], nil
}

func checksum(bucket, key, value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, []byte{0})
	sum = crc32.Update(sum, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, value[:8])
	return crc32.Update(sum, castagnoli, value[checksumSize:])
}

// rawRecord is an encoded record. Its slices may point into the file, so it is valid only during the transaction.
type rawRecord struct {
	bucket []byte // the kind
	id     []byte
	value  []byte
}

func (v rawRecord) open() (state.Revision, []byte, error) {
	return verifyChecksum(v.bucket, v.id, v.value)
}

// entry verifies and decodes the value. The entry does not point into the file.
func (v rawRecord) entry() (state.Entry, error) {
	revision, content, err := v.open()
	if err != nil {
		return state.Entry{}, err
	}
	record, err := decode(resources.Kind(v.bucket), v.id, content)
	return state.Entry{Record: record, Revision: revision}, err
}

func decode(kind resources.Kind, id, content []byte) (resources.Record, error) {
	record := resources.NewRecord(kind)
	if record == nil {
		return nil, damage("there is no kind of record called %q", kind)
	}
	if err := jsonv2.Unmarshal(content, record); err != nil {
		return nil, damage("%s/%s: %v", kind, id, err)
	}
	if key := record.Key(); key.ID != string(id) {
		return nil, damage("%s/%s contains the record %s", kind, id, key)
	}
	return record, nil
}

// checkAll verifies the checksum of every value and the counts, so that npctl does not write to a damaged file.
func checkAll(tx *bbolt.Tx) error {
	h, err := loadHead(tx)
	if err != nil {
		return err
	}
	records, locks := tx.Bucket(recordsBucket), tx.Bucket(locksBucket)
	if records == nil || locks == nil {
		return damage("a part of it is missing")
	}
	if got, err := checkBucket(locksBucket, locks); err != nil {
		return err
	} else if got != h.Locks {
		return damage("it has %d locks, and %d were written", got, h.Locks)
	}
	counts := map[resources.Kind]int{}
	err = records.ForEachBucket(func(kind []byte) (err error) {
		counts[resources.Kind(kind)], err = checkBucket(kind, records.Bucket(kind))
		return err
	})
	if err != nil {
		return err
	}
	for kind := range h.Counts {
		if err := h.checkCount(kind, counts[kind]); err != nil {
			return err
		}
	}
	return nil
}

func checkBucket(name []byte, bucket *bbolt.Bucket) (values int, err error) {
	err = bucket.ForEach(func(k, v []byte) error {
		values++
		_, _, err := verifyChecksum(name, k, v)
		return err
	})
	return values, err
}
