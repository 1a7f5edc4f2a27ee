package zookeeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

const somePrefix = "5d8281cef0054f00a9eb9a4e59b72140"

func TestContendersAreThoseOfKazoo(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		somePrefix + "__lock__0000000042":  true,
		somePrefix + "__lock__-2147483648": true,
		"__lock__0000000001":               true, // only the owner uses the prefix
		"a__lock__b__lock__0000000001":     true,
		"_c_0123-lock-0000000001":          false, // the Go library's own recipe, which kazoo ignores
		somePrefix + "__rlock__0000000001": false, // a read lock
		somePrefix + "__lock__000000001":   false,
		somePrefix + "__lock__00000000001": false,
		somePrefix + "__lock__0000000001x": false,
		"0000000001":                       false,
		"":                                 false,
	} {
		if got := isContender(name); got != want {
			t.Errorf("isContender(%q) = %t", name, got)
		}
	}
}

func TestPrefixEndsAtTheLastMark(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		somePrefix + "__lock__0000000042": somePrefix,
		"a__lock__b__lock__0000000001":    "a__lock__b",
		"0000000001":                      "",
	} {
		if got := prefixOf(name); got != want {
			t.Errorf("prefixOf(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestQueueIsOrderedByNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		const dir = nodesDir + "/0000000001/lock"
		numbers := rapid.SliceOfNDistinct(rapid.Int32Min(0), 0, 12, rapid.ID).Draw(r, "numbers")
		c := newCache()
		for _, n := range numbers {
			prefix := rapid.StringMatching(`[0-9a-f]{32}`).Draw(r, "prefix")
			c.event(zk.EventNodeCreated, fmt.Sprintf("%s/%s__lock__%010d", dir, prefix, n))
		}
		for _, other := range rapid.SliceOfN(rapid.StringMatching(`_c_[0-9a-f]{8}-lock-[0-9]{10}`), 0, 3).Draw(r, "others") {
			c.event(zk.EventNodeCreated, dir+"/"+other)
		}
		slices.Sort(numbers)
		var got []int32
		for _, name := range c.queue(dir) {
			got = append(got, int32(contenderNumber(name)))
		}
		if diff := cmp.Diff(numbers, got); diff != "" && len(numbers)+len(got) > 0 {
			r.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestEmptyQueueIsRemoved(t *testing.T) {
	t.Parallel()
	c := newCache()
	at := requestLocks + "/200-0000000001/" + somePrefix + "__lock__0000000000"
	c.event(zk.EventNodeCreated, at)
	if dir := parentOf(at); len(c.queue(dir)) != 1 {
		t.Fatalf("queue %v, want one contender", c.queue(dir))
	}
	c.event(zk.EventNodeDeleted, at)
	if len(c.queues) != 0 {
		t.Errorf("%v is left", c.queues)
	}
	if c.nodes[requestLocks+"/200-0000000001"] == nil {
		t.Error("the directory went with its contender")
	}
}

func TestLocksOfRecords(t *testing.T) {
	t.Parallel()
	build := imagesDir + "/noble/builds/" + strings.Repeat("7b", 16)
	upload := build + "/providers/cloud/images/0000000001"
	for _, c := range []struct{ at, state, want string }{
		{requestsDir + "/200-0000000007", "pending", requestLocks + "/200-0000000007"},
		{nodesDir + "/0000000007", "building", nodesDir + "/0000000007/lock"},
		{build, "building", imagesDir + "/noble/builds/lock"},
		{build, "ready", build + "/lock"},
		{build, "deleting", build + "/lock"},
		{upload, "uploading", build + "/providers/cloud/images/lock"},
		{upload, "ready", upload + "/lock"},
		{upload, "deleting", upload + "/lock"},
	} {
		if got := claimDir(c.at, parsePath(c.at), resources.State(c.state)); got != c.want {
			t.Errorf("%s in state %s is locked in %s, want %s", c.at, c.state, got, c.want)
		}
	}
}

func TestZnodeDeletedDuringListingIsNotAdded(t *testing.T) {
	const dir = "/nodepool/nodes/0000000001/lock"
	contender := strings.Repeat("0", 32) + "__lock__0000000000"
	c := newCache()
	c.deletedDuringLoad = map[string]uint64{}
	asked := c.seq
	c.event(zk.EventNodeDeleted, dir+"/"+contender) // which arrived while there was no connection
	c.children(dir, []string{contender}, asked)
	if queue := c.queue(dir); len(queue) > 0 {
		t.Errorf("in the queue is %v, which is gone", queue)
	}
}
