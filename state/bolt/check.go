package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"os"
)

// The layout of a bbolt file, version 2, in the byte order of the machine
// (https://github.com/etcd-io/bbolt/tree/v1.5.0/internal/common):
//
//	page     id u64, flags u16, count u16, overflow u32 (number of pages that follow it), elements, data
//	meta     magic u32, version u32, page size u32, flags u32, root bucket (page u64, sequence u64), freelist u64,
//	         high water mark u64, transaction u64, checksum u64 (FNV-1a of the preceding fields); on pages 0 and 1
//	branch   elements: pos u32, key size u32, page u64; pos is relative to the element
//	leaf     elements: flags u32 (1: a bucket), pos u32, key size u32, value size u32; value after key
//	bucket   as a leaf's value: root page u64, sequence u64; root 0: its only page follows inline
//	freelist ids u64; count 0xffff: the first of them is the count
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64 // bytes, without the page header
	headerSize  = 16
	elementSize = 16
	noFreelist  = ^uint64(0)

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10
	bucketFlag   = 0x01

	maxDepth = 64 // of the tree; a full file has five levels
)

var order = binary.NativeEndian

// meta is the meta page of one version of the file.
type meta struct {
	pageSize                        uint64
	root, freelist, highWater, txid uint64
}

type metas struct {
	newest  meta
	damaged bool // only one of the two is valid
}

// readMetas returns the newest meta page, and checks that the file is not shorter than the page states.
func readMetas(r io.ReaderAt, size int64) (metas, error) {
	if size == 0 {
		return metas{}, errEmpty
	}
	first, ok0, known0 := metaAt(r, 0)
	pageSize := uint64(os.Getpagesize()) // if the first page does not contain it
	if ok0 {
		pageSize = first.pageSize
	}
	second, ok1, known1 := metaAt(r, int64(pageSize))
	ok1 = ok1 && second.pageSize == pageSize
	found := metas{newest: first, damaged: !ok0 || !ok1}
	switch {
	case !ok0 && !ok1 && (known0 || known1):
		return metas{}, damage("both of its meta pages are broken")
	case !ok0 && !ok1:
		return metas{}, errNotState
	case !ok0 || ok1 && second.txid > first.txid:
		found.newest = second
	}
	if need := found.newest.highWater * found.newest.pageSize; uint64(size) < need {
		return metas{}, damage("it is truncated: it has %d bytes, at least %d are needed", size, need)
	}
	return found, nil
}

// metaAt reads the meta page at offset. known reports whether it has the magic number of bbolt.
func metaAt(r io.ReaderAt, offset int64) (m meta, ok, known bool) {
	var page [headerSize + metaSize]byte
	if _, err := r.ReadAt(page[:], offset); err != nil {
		return meta{}, false, order.Uint32(page[headerSize:]) == metaMagic
	}
	b := page[headerSize:]
	known = order.Uint32(b) == metaMagic
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if !known || order.Uint32(b[4:]) != metaVersion || order.Uint64(b[metaSize-8:]) != sum.Sum64() {
		return meta{}, false, known
	}
	m = meta{
		pageSize: uint64(order.Uint32(b[8:])), root: order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]), highWater: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
	sizes := m.pageSize >= 1024 && m.pageSize <= 1<<16 && m.pageSize&(m.pageSize-1) == 0 && m.highWater < 1<<40
	return m, sizes, known
}

// checkPages verifies that every page of the version is either free or used exactly once and has the expected type, and
// that its elements are within the page and in order.
func checkPages(f *os.File, m meta) error {
	length := m.highWater * m.pageSize
	data, release, err := mapFile(f, int(length))
	if err != nil {
		return &os.PathError{Op: "map", Path: f.Name(), Err: err}
	}
	defer release()
	return walk(data, m)
}

func walk(data []byte, m meta) error {
	w := &walker{data: data, pageSize: m.pageSize, highWater: m.highWater, taken: make([]bool, m.highWater)}
	if m.highWater < 4 {
		return damage("its high water mark is %d", m.highWater)
	}
	w.taken[0], w.taken[1] = true, true
	if err := w.freelist(m.freelist); err != nil {
		return err
	}
	if err := w.tree(m.root, nil, nil, 0); err != nil {
		return err
	}
	for id, taken := range w.taken {
		if !taken && m.freelist != noFreelist {
			return damage("page %d is neither used nor free", id)
		}
	}
	return nil
}

type walker struct {
	data      []byte
	pageSize  uint64
	highWater uint64
	taken     []bool // pages found in use or free
}

// page returns the page with its overflow pages, and marks them as taken.
func (w *walker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= w.highWater {
		return nil, damage("page %d does not exist", id)
	}
	p := w.data[id*w.pageSize:]
	pages := uint64(order.Uint32(p[12:])) + 1
	if got := order.Uint64(p); got != id {
		return nil, damage("page %d has the header of page %d", id, got)
	}
	if id+pages > w.highWater {
		return nil, damage("page %d extends past the end of the file", id)
	}
	for i := id; i < id+pages; i++ {
		if err := w.take(i); err != nil {
			return nil, err
		}
	}
	return p[:pages*w.pageSize], nil
}

func (w *walker) take(id uint64) error {
	if id < 2 || id >= w.highWater {
		return damage("page %d does not exist", id)
	}
	if w.taken[id] {
		return damage("page %d is used twice", id)
	}
	w.taken[id] = true
	return nil
}

func (w *walker) freelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	p, err := w.page(id)
	if err != nil {
		return err
	}
	if flags := order.Uint16(p[8:]); flags != freelistFlag {
		return damage("page %d should be the list of free pages", id)
	}
	count, ids := uint64(order.Uint16(p[10:])), p[headerSize:]
	if count == 0xFFFF {
		count, ids = order.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return damage("the list of free pages is longer than its page")
	}
	for i := range count {
		if err := w.take(order.Uint64(ids[8*i:])); err != nil {
			return err
		}
	}
	return nil
}

// tree checks the page and its descendants. All keys must be in [low, high); nil means no bound.
func (w *walker) tree(id uint64, low, high []byte, depth int) error {
	p, err := w.page(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return damage("page %d is nested too deeply", id)
	}
	switch order.Uint16(p[8:]) {
	case leafFlag, branchFlag:
		err = w.elements(p, low, high, depth)
	default:
		err = errors.New("is of the wrong type")
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return damage("page %d %v", id, err)
	}
	return err
}

// element is an entry of a page: a key with a child page or a value.
type element struct {
	key, value []byte
	child      uint64
	flags      uint32
}

func elementAt(p []byte, i int, isLeaf bool) (e element, err error) {
	at := headerSize + i*elementSize
	sizes, valueSize := p[at:], uint64(0)
	if isLeaf {
		e.flags, valueSize, sizes = order.Uint32(sizes), uint64(order.Uint32(sizes[12:])), sizes[4:]
	} else {
		e.child = order.Uint64(sizes[8:])
	}
	from := uint64(at) + uint64(order.Uint32(sizes))
	mid := from + uint64(order.Uint32(sizes[4:]))
	if mid+valueSize > uint64(len(p)) {
		return e, errors.New("has an element outside of it")
	}
	e.key, e.value = p[from:mid], p[mid:mid+valueSize]
	return e, nil
}

// elements checks the elements of a page and all that they contain.
func (w *walker) elements(p []byte, low, high []byte, depth int) error {
	isLeaf := order.Uint16(p[8:]) == leafFlag
	count := int(order.Uint16(p[10:]))
	if count == 0 && !isLeaf || headerSize+count*elementSize > len(p) {
		return errors.New("has a wrong number of elements")
	}
	for i := range count {
		e, err := elementAt(p, i, isLeaf)
		if err != nil {
			return err
		}
		if bytes.Compare(e.key, low) < 0 || i > 0 && bytes.Equal(e.key, low) || high != nil && bytes.Compare(e.key, high) >= 0 {
			return errors.New("has its keys out of order")
		}
		switch {
		case !isLeaf:
			below := high
			if i+1 < count {
				next, err := elementAt(p, i+1, isLeaf)
				if err != nil {
					return err
				}
				below = next.key
			}
			err = w.tree(e.child, e.key, below, depth+1)
		case e.flags == bucketFlag:
			err = w.bucket(e.value, depth+1)
		case e.flags != 0:
			err = errors.New("has an element of unknown type")
		}
		if err != nil {
			return err
		}
		low = e.key
	}
	return nil
}

func (w *walker) bucket(value []byte, depth int) error {
	if len(value) < headerSize {
		return errors.New("has a bucket without a root")
	}
	if root := order.Uint64(value); root != 0 {
		return w.tree(root, nil, nil, depth)
	}
	inline := value[headerSize:]
	if len(inline) < headerSize || order.Uint16(inline[8:]) != leafFlag || depth > maxDepth {
		return errors.New("has a bucket without a page")
	}
	return w.elements(inline, nil, nil, depth)
}
