package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// killTests interrupt a client before and after the effect of each of its changing calls. What another client then does for
// the same record must complete the work.
func killTests() []test {
	can, adopts, returns := []string{"Kill"}, []string{"adopter", "Foreign", "Kill"}, []string{"nodes", "Kill"}
	return []test{
		{"KilledLaunchIsRepeated", can, killed(launch, launchAgain)},
		{"KilledLaunchIsGivenUp", can, killed(launch, clean)},
		{"LaunchWithALostResponseIsRepeated", can, lost(launch, launchAgain)},
		{"KilledDeletionIsRepeated", can, killed(deletion, clean)},
		{"DeletionWithALostResponseIsRepeated", can, lost(deletion, clean)},
		{"KilledAdoptionIsRepeated", adopts, killed(adoption, adoptAgain)},
		{"KilledReleaseIsRepeated", adopts, killed(release, releaseAgain)},
		{"KilledReturnOfANodeIsRepeated", returns, killed(nodeReturn, clean)},
	}
}

func imageKillTests() []test {
	images := []string{"images", "Kill"}
	return []test{
		{"KilledUploadIsRepeated", images, killed(upload, uploadAgain)},
		{"KilledUploadIsGivenUp", images, killed(upload, clean)},
		{"UploadWithALostResponseIsRepeated", images, lost(upload, uploadAgain)},
		{"KilledDeletionIsRepeated", images, killed(imageDeletion, clean)},
	}
}

// job is work for one record.
type job struct {
	*suite
	spec    drivers.Spec
	image   drivers.ImageSpec
	content []byte
	id      string // of the instance to adopt or to release

	points      int  // of the work
	survives    bool // the client lives on
	nothingDone bool // the error of Create or UploadImage proves it
}

// work prepares a job and returns the part that is interrupted.
type work func(t *testing.T, j *job) func(ctx context.Context, c drivers.Cloud) error

// completion does the job again after err, by another client or the same one.
type completion func(t *testing.T, j *job, c drivers.Cloud, err error)

func killed(w work, again completion) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) { s.atEveryPoint(t, false, w, again) }
}

func lost(w work, again completion) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) { s.atEveryPoint(t, true, w, again) }
}

// atEveryPoint does the work without interruption, and then with one at each point. After the completion, the project must
// have as many objects of each kind as without interruption, and after the deletion of what the client lists, the objects
// that it had before.
func (s *suite) atEveryPoint(t *testing.T, survives bool, w work, again completion) {
	if s.Foreign != nil {
		s.Foreign(t)
	}
	if s.ForeignImage != nil {
		s.ForeignImage(t)
	}
	s.settled(t)
	before := s.Objects(t)
	var want map[string]int
	points := 0
	for at := 0; at <= points && !t.Failed(); at++ {
		k := &testutil.Killer{Survives: survives}
		j := &job{suite: s, spec: s.spec(), survives: survives}
		where, objects := s.interrupted(t, k, at, j, w, again)
		if at == 0 {
			want, points = objects, j.points
			t.Logf("%d points", points)
			if points < 2 {
				t.Error("no call changes anything")
			}
		} else if !maps.Equal(objects, want) {
			t.Errorf("%s: objects are %v, want %v", where, objects, want)
		}
		clean(t, j, s.reopened(t), nil)
		s.eventually(t, func() error {
			_, err := s.Cloud.List(t.Context()) // some doubles progress when they are read
			if now := s.Objects(t); !slices.Equal(now, before) {
				err = fmt.Errorf("%s, then deleted: objects are %q, were %q", where, now, before)
			}
			return err
		})
	}
}

// interrupted does the work with an interruption and completes it. It returns the place of the interruption, and the number of
// objects of each kind.
func (s *suite) interrupted(t *testing.T, k *testutil.Killer, at int, j *job, w work, again completion) (where string, objects map[string]int) {
	t.Helper()
	do := w(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := s.Kill(t, k)
	defer client.Close() //nolint:errcheck // of a test
	if k.Revive(at); !k.Survives {
		k.OnDeath = cancel // a killed process waits for nothing
	}
	err := do(ctx, client)
	j.points = k.Points()
	where, struck := k.Died()
	where = fmt.Sprintf("point %d: interrupted %s", at, where)
	if at == 0 && err != nil || at > 0 && !struck {
		t.Errorf("%s: the work ended with %v, interrupted: %t", where, err, struck)
	}
	s.checkReads(t, where)
	if k.Survives {
		again(t, j, client, err)
	} else {
		again(t, j, s.reopened(t), err)
	}
	return where, s.settled(t)
}

// settled counts the objects of each kind once they no longer change.
func (s *suite) settled(t *testing.T) map[string]int {
	t.Helper()
	var last []string
	s.eventually(t, func() error {
		_, err := s.Cloud.List(t.Context())
		now := s.Objects(t)
		if !slices.Equal(now, last) {
			err = errors.New("the objects change")
		}
		last = now
		return err
	})
	count := map[string]int{}
	for _, object := range last {
		kind, _, _ := strings.Cut(object, " ")
		count[kind]++
	}
	return count
}

func launch(_ *testing.T, j *job) func(context.Context, drivers.Cloud) error { return j.launch }

// launch creates the instance and waits until it is ready.
func (j *job) launch(ctx context.Context, c drivers.Cloud) error {
	made, err := c.Create(ctx, j.spec)
	if j.nothingDone = drivers.IsNothingDone(err); err != nil {
		return err
	}
	if !testutil.Poll(j.Settle, func() bool {
		if made, err = j.listed(ctx, c, j.spec.Marks.ID); err == nil {
			made, err = c.Advance(ctx, j.spec, made)
		}
		return err != nil || made.Status == resources.StatusReady
	}) {
		return fmt.Errorf("after %s instance %s is %s", j.Settle, made.ID, made.Status)
	}
	return err
}

// maybeCreated is MaybeCreated of the next attempt. A client that was killed has recorded no proof that nothing was done.
func (j *job) maybeCreated() bool { return !j.survives || !j.nothingDone }

func launchAgain(t *testing.T, j *job, c drivers.Cloud, err error) {
	t.Helper()
	if err != nil {
		j.spec.MaybeCreated = j.maybeCreated()
		testutil.Must(t, j.launch(t.Context(), c))
	}
	j.ready(t, c, j.spec)
}

func deletion(t *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	t.Helper()
	testutil.Must(t, j.launch(t.Context(), j.Cloud))
	made, err := j.listed(t.Context(), j.Cloud, j.spec.Marks.ID)
	testutil.Must(t, err)
	return func(ctx context.Context, c drivers.Cloud) error { return c.Delete(ctx, made.ID, j.spec.Marks) }
}

// nodeReturn returns the node of a deleted instance.
func nodeReturn(t *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	t.Helper()
	testutil.Must(t, deletion(t, j)(t.Context(), j.Cloud))
	return returnNodes
}

// returnNodes returns the nodes of other providers on which there is no instance.
func returnNodes(ctx context.Context, c drivers.Cloud) error {
	user, ok := drivers.NodeUserOf(c)
	if !ok {
		return nil
	}
	unneeded, err := user.Unneeded(ctx, nil)
	for _, u := range unneeded {
		err = errors.Join(err, user.ReturnNode(ctx, u.Request))
	}
	return err
}

// clean deletes all that the client lists of the records of a job, until it lists nothing.
func clean(t *testing.T, j *job, c drivers.Cloud, _ error) {
	t.Helper()
	ours := func(marks resources.OwnerTags) bool {
		return marks.SameRecord(j.spec.Marks) || marks.SameRecord(j.image.Marks) && marks.ID != ""
	}
	j.eventually(t, func() error {
		left, err := c.List(t.Context())
		if left = slices.DeleteFunc(left, func(i resources.Instance) bool { return !ours(i.Marks) }); err == nil && len(left) > 0 {
			err = fmt.Errorf("%d instances are listed", len(left))
		}
		for _, i := range left {
			if i.Status != resources.StatusDeleting {
				err = errors.Join(err, c.Delete(t.Context(), i.ID, i.Marks))
			}
		}
		if err != nil {
			return err
		}
		return errors.Join(j.cleanImages(t, c, ours), j.cleanLeftovers(t, c), returnNodes(t.Context(), c))
	})
}

// cleanImages returns an error if there were images.
func (j *job) cleanImages(t *testing.T, c drivers.Cloud, ours func(resources.OwnerTags) bool) error {
	t.Helper()
	store, ok := drivers.ImagesOf(c)
	if !ok {
		return nil
	}
	images, err := store.ListImages(t.Context())
	for _, i := range images {
		if ours(i.Marks) {
			err = errors.Join(err, fmt.Errorf("image %s is listed", i.ID), store.DeleteImage(t.Context(), i.ID, i.Marks))
		}
	}
	return err
}

// cleanLeftovers returns an error if there were leftovers: of the job, or shared by the records of the installation, which has no
// others now.
func (j *job) cleanLeftovers(t *testing.T, c drivers.Cloud) error {
	t.Helper()
	sweeper, ok := drivers.SweeperOf(c)
	if !ok {
		return nil
	}
	leftovers, err := sweeper.Leftovers(t.Context())
	for _, l := range leftovers {
		if l.Marks.Installation != j.installation {
			continue
		}
		if err = errors.Join(err, fmt.Errorf("%s %s is listed", l.Type, l.ID)); !l.InUse {
			err = errors.Join(err, sweeper.DeleteLeftover(t.Context(), l))
		}
	}
	return err
}

func upload(_ *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	j.content = j.suite.content()
	j.image = j.imageSpec(j.content)
	return j.upload
}

func (j *job) upload(ctx context.Context, c drivers.Cloud) error {
	store, _ := drivers.ImagesOf(c)
	_, err := store.UploadImage(ctx, j.image, bytes.NewReader(j.content))
	j.nothingDone = drivers.IsNothingDone(err)
	return err
}

func uploadAgain(t *testing.T, j *job, c drivers.Cloud, err error) {
	t.Helper()
	if err != nil {
		j.image.MaybeCreated = j.maybeCreated()
		testutil.Must(t, j.upload(t.Context(), c))
	}
	store, _ := drivers.ImagesOf(c)
	j.eventually(t, func() error {
		images, err := store.ListImages(t.Context())
		images = slices.DeleteFunc(images, func(i resources.RemoteImage) bool { return !i.Marks.SameRecord(j.image.Marks) })
		if err == nil && (len(images) != 1 || images[0].Status != resources.StatusReady) {
			err = fmt.Errorf("images of the upload are %+v, want one that is ready", images)
		}
		return err
	})
}

func imageDeletion(t *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	t.Helper()
	j.content = j.suite.content()
	j.image = j.imageSpec(j.content)
	made, err := j.images(t).UploadImage(t.Context(), j.image, bytes.NewReader(j.content))
	testutil.Must(t, err)
	return func(ctx context.Context, c drivers.Cloud) error {
		store, _ := drivers.ImagesOf(c)
		return store.DeleteImage(ctx, made.ID, j.image.Marks)
	}
}

// adoption adopts an instance that the project has already had.
func adoption(t *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	t.Helper()
	testutil.Must(t, j.launch(t.Context(), j.Cloud))
	made, err := j.listed(t.Context(), j.Cloud, j.spec.Marks.ID)
	testutil.Must(t, err)
	adopter, _ := drivers.AdopterOf(j.Cloud)
	testutil.Must(t, adopter.Release(t.Context(), made.ID, j.spec.Marks))
	j.id, j.spec.Marks = made.ID, j.suite.spec().Marks
	return j.adoptInstance
}

func (j *job) adoptInstance(ctx context.Context, c drivers.Cloud) error {
	adopter, _ := drivers.AdopterOf(c)
	return adopter.Adopt(ctx, j.id, j.spec.Marks, resources.OwnerTags{})
}

func adoptAgain(t *testing.T, j *job, c drivers.Cloud, _ error) {
	t.Helper()
	testutil.Must(t, j.adoptInstance(t.Context(), c))
	if now := j.ready(t, c, j.spec); now.ID != j.id {
		t.Errorf("the record has instance %s, want the adopted %s", now.ID, j.id)
	}
}

// release releases an instance, which a job whose client adopts it can delete afterwards.
func release(t *testing.T, j *job) func(context.Context, drivers.Cloud) error {
	t.Helper()
	testutil.Must(t, j.launch(t.Context(), j.Cloud))
	made, err := j.listed(t.Context(), j.Cloud, j.spec.Marks.ID)
	testutil.Must(t, err)
	j.id = made.ID
	return j.releaseInstance
}

func (j *job) releaseInstance(ctx context.Context, c drivers.Cloud) error {
	adopter, _ := drivers.AdopterOf(c)
	return adopter.Release(ctx, j.id, j.spec.Marks)
}

func releaseAgain(t *testing.T, j *job, c drivers.Cloud, _ error) {
	t.Helper()
	testutil.Must(t, j.releaseInstance(t.Context(), c))
	adopter, _ := drivers.AdopterOf(c)
	object, found, err := adopter.LookUp(t.Context(), resources.KindNode, j.id)
	if err != nil || !found || object.Facts().Marks != (resources.OwnerTags{}) {
		t.Errorf("the released instance is %+v, %t, %v; want it without ownership tags", object, found, err)
	}
	j.nothingOf(t, j.spec.Marks)
	testutil.Must(t, j.adoptInstance(t.Context(), c))
}
