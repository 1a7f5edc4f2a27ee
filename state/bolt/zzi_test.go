package bolt
import ("testing";"os";"go.etcd.io/bbolt";"context")
func BenchmarkWalk(b *testing.B) {
	f, err := os.Open("/tmp/lst/db6"); if err != nil { b.Skip() }
	_, m, _ := versionOf(f)
	for b.Loop() { if err := checkPages(f, m.newest); err != nil { b.Fatal(err) } }
}
func BenchmarkThis(b *testing.B) { for b.Loop() { thisProcess() } }
func BenchmarkCollect(b *testing.B) {
	s, _ := Open(Options{Path: "/tmp/lst/db6", ReadOnly: true})
	for b.Loop() { s.view(context.Background(), func(tx *bbolt.Tx, h *head) error { v := collect(nil, "node", kindBucket(tx, "node")); detach(v); return nil }) }
}
func BenchmarkView(b *testing.B) {
	s, _ := Open(Options{Path: "/tmp/lst/db6", ReadOnly: true})
	for b.Loop() { s.view(context.Background(), func(tx *bbolt.Tx, h *head) error { return nil }) }
}
