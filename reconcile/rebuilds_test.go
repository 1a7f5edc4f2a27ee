package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestTenRebuildsWithEveryMishap rebuilds an image ten times, each time because it is a day old and after several
// mishaps. At every moment, each cloud must have an image that nodes can boot from; at the end, it must have exactly
// the kept builds. The test fails if a mishap does not occur.
func TestTenRebuildsWithEveryMishap(t *testing.T) {
	m := newMill(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRebuildLab(t, m, rebuiltWith(2, false))
		r.smallDisk(t)
		for range 2 {
			r.rebuild(t, plan.Options{})
			time.Sleep(25 * time.Hour)
		}
		for rebuild := range 10 {
			for i := rebuild; i < len(mishaps); i += 10 {
				if mishaps[i].small && !r.small {
					continue
				}
				r.meet(t, mishaps[i])
			}
			r.rebuild(t, plan.Options{})
			r.exactly(t, 2, false)
			time.Sleep(25 * time.Hour)
		}
		r.watch.verdict(t)
		t.Logf("the watch has looked %d times", r.watch.looks)
	})
}

// meet applies during a mishap, when a build is due, and then applies until the build succeeds.
func (r *rebuildLab) meet(t *testing.T, m mishap) {
	t.Helper()
	if p := r.plan(plan.Options{}); !strings.Contains(text(p), "upload provider.") { // the previous mishap did no harm
		r.rebuild(t, plan.Options{})
		time.Sleep(25 * time.Hour)
	}
	came := r.befall(t, m)
	p, err := r.run(t.Context(), plan.Options{})
	switch {
	case !came():
		t.Errorf("%s: it never came\n%s%v", m.name, text(p), err)
	case m.passing && err != nil:
		t.Errorf("%s: one apply should get over it: %v", m.name, err)
	case !m.passing && (err == nil || !strings.Contains(err.Error(), m.says)):
		t.Errorf("%s: the apply ends with %v, want %q in it", m.name, err, m.says)
	}
	r.faults(t, mishap{})
	if t.Failed() || testing.Verbose() {
		t.Logf("%s\n%s%v", m.name, text(p), err)
	}
}

// rebuild applies, with working clouds, until a new build is uploaded to every cloud.
func (r *rebuildLab) rebuild(t *testing.T, opt plan.Options) {
	t.Helper()
	for round := range 4 {
		p, err := r.run(t.Context(), opt)
		if err != nil {
			t.Errorf("apply %d without mishaps: %v\n%s", round+1, err, text(p))
		}
		time.Sleep(2 * time.Minute) // simulated: the time between two sightings of a leak
		if p := r.plan(plan.Options{}); len(p.Steps) == 0 && !leaking(p) {
			break
		}
	}
	newest, _ := r.newest()
	if newest == nil || time.Since(newest.StateTime) > 24*time.Hour || !r.everywhere(newest.ID) {
		t.Fatalf("there is no new build in every cloud; the newest is %+v\n%s", newest, text(r.plan(plan.Options{})))
	}
}

// leaking reports whether the plan waits for the second sighting of a leak.
func leaking(p plan.Plan) bool {
	return slices.ContainsFunc(p.Notes, func(n plan.Note) bool { return n.Code == "leak-sighted" })
}

// TestRebuildsWithRandomMishaps draws the retention, the cause of each rebuild and the mishaps.
func TestRebuildsWithRandomMishaps(t *testing.T) {
	m := newMill(t)
	for _, seed := range testutil.Seeds(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// any six consecutive seeds cover all combinations of keep and delete_after_upload
				randomRebuilds(t, m, rand.New(rand.NewPCG(seed, 0)), 1+int(seed%3), seed%2 == 1) //nolint:gosec // G115: small
			})
		})
	}
}

func randomRebuilds(t *testing.T, m *mill, random *rand.Rand, keep int, deleted bool) {
	r := newRebuildLab(t, m, rebuiltWith(keep, deleted))
	var story []string
	r.rebuild(t, plan.Options{})
	for rebuild := range 10 {
		opt := r.cause(random, rebuild, &story)
		for range random.IntN(4) {
			story = append(story, r.mischief(t, random)...)
			opt.HonorBackoff = random.IntN(3) == 0
			p, err := r.run(t.Context(), opt)
			story = append(story, fmt.Sprintf("apply:\n%s%v", text(p), err))
			time.Sleep(time.Duration(random.IntN(600)) * time.Second)
		}
		r.peace(t)
		opt.HonorBackoff = false
		if before, _ := r.newest(); rebuild == 9 || random.IntN(3) > 0 || before == nil {
			r.rebuild(t, plan.Options{Replace: opt.Replace})
			r.noMore(t, keep, deleted)
		}
		if t.Failed() {
			break
		}
	}
	for range keep { // so that every cloud has the same builds
		time.Sleep(25 * time.Hour)
		r.rebuild(t, plan.Options{})
	}
	r.exactly(t, keep, deleted)
	r.watch.verdict(t)
	if t.Failed() {
		t.Logf("keep %d, delete_after_upload %t; what happened:\n%s", keep, deleted, strings.Join(story, "\n"))
	}
}

// cause makes a rebuild due: by age, by a change, or by request.
func (r *rebuildLab) cause(random *rand.Rand, rebuild int, story *[]string) (opt plan.Options) {
	switch random.IntN(3) {
	case 0:
		*story = append(*story, "a day passes")
		time.Sleep(25 * time.Hour)
	case 1:
		*story = append(*story, "the image is changed")
		r.config = strings.Replace(r.config, fmt.Sprintf("EDITION = %q", edition(r.config)), fmt.Sprintf("EDITION = %q", fmt.Sprint(rebuild+1)), 1)
	default:
		*story = append(*story, "somebody asks for a build")
		opt.Replace = []plan.Address{"diskimage.debian"}
	}
	return opt
}

func edition(config string) string {
	_, after, _ := strings.Cut(config, `EDITION = "`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

// mischief arranges up to three mishaps at once.
func (r *rebuildLab) mischief(t *testing.T, random *rand.Rand) (story []string) {
	t.Helper()
	whole := mishap{}
	for range 1 + random.IntN(3) {
		m := mishaps[random.IntN(len(mishaps))]
		if m.small || m.mood == "deaf" || m.mood == "hangs" && random.IntN(3) > 0 { // they take real time
			continue
		}
		story = append(story, "mishap: "+m.name)
		if m.mood != "" {
			whole.mood = m.mood
		}
		if m.qemu != "" {
			whole.qemu = m.qemu
		}
		if m.tamper != nil {
			whole.tamper = m.tamper
		}
		if m.fault.Operation != "" {
			m.fault.After = random.IntN(3)
			whole.more = append(append(whole.more, m.fault), m.more...)
		}
	}
	if len(whole.more) > 0 {
		whole.fault, whole.more = whole.more[0], whole.more[1:]
	}
	r.befall(t, whole)
	return story
}

// peace removes the mishaps that have not occurred yet.
func (r *rebuildLab) peace(t *testing.T) {
	t.Helper()
	r.faults(t, mishap{})
	r.mu.Lock()
	r.tamper = nil
	r.mu.Unlock()
	for _, name := range []string{"mood", "qemu-mood"} {
		r.file(name, "")
	}
}

// TestTwoConversionsOfOneBuildAreBothOnRecord: two providers need further formats of a build at the same time.
func TestTwoConversionsOfOneBuildAreBothOnRecord(t *testing.T) {
	m := newMill(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRebuildLab(t, m, strings.Replace(rebuilt, `image_format   = "raw"`, `image_format   = "qcow2"`, 1))
		r.rebuild(t, plan.Options{})
		r.config = strings.Replace(rebuilt, `image_format   = "qcow2"`, `image_format   = "vhd"`, 1)
		for _, record := range r.records(resources.KindUpload) {
			u := record.(*resources.Upload)
			if err := r.driver.Clouds[u.Provider].Remove(u.ExternalID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		r.watch.had = map[string]bool{} // the test has removed them, not npctl
		r.file("qemu-mood", "together")
		r.builds = 2
		p, err := r.run(t.Context(), plan.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text(p))
		}
		newest, _ := r.newest()
		for _, format := range []string{"qcow2", "raw", "vhd"} {
			if _, ok := newest.File(format); !ok {
				t.Errorf("the record of the build does not know its %s file: %+v", format, newest.Files)
			}
		}
		r.watch.verdict(t)
	})
}

// TestFailedConversionIsWaitedFor: a provider needs another format, and qemu-img fails to create it.
func TestFailedConversionIsWaitedFor(t *testing.T) {
	m := newMill(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRebuildLab(t, m, rebuilt)
		r.rebuild(t, plan.Options{})
		r.config = strings.Replace(rebuilt, `provider "lab" "two"`, `provider "lab" "three"`, 1)
		r.config = strings.Replace(r.config, `image_format   = "qcow2"`, `image_format   = "vhd"`, 1)
		r.driver.Clouds["three"] = r.driver.Clouds["two"] // the old block is gone, and its images are deleted
		for failures := 1; failures <= 2; failures++ {
			r.file("qemu-mood", "crashes")
			if p, err := r.run(t.Context(), plan.Options{HonorBackoff: true}); err == nil || !strings.Contains(err.Error(), "segmentation fault") {
				t.Fatalf("the conversion was to fail: %v\n%s", err, text(p))
			}
			record := r.records(resources.KindImage)[0].(*resources.ImageRecord)
			if f := record.Uploads["three"]; f == nil || f.Count != failures || len(record.Uploads) != 1 || record.Failure != nil {
				t.Errorf("after %d failures this is remembered: %+v, %+v", failures, record, f)
			}
			p := r.plan(plan.Options{HonorBackoff: true})
			waits := slices.ContainsFunc(p.Notes, func(n plan.Note) bool { return n.Code == "failing" })
			if len(p.Steps) > 0 || !waits {
				t.Errorf("who is patient does not wait:\n%s%+v", text(p), p.Notes)
			}
			time.Sleep(5 * time.Minute)
		}
		if p, err := r.run(t.Context(), plan.Options{HonorBackoff: true}); err != nil {
			t.Fatalf("%v\n%s", err, text(p))
		}
		if record := r.records(resources.KindImage)[0].(*resources.ImageRecord); len(record.Uploads) > 0 {
			t.Errorf("it works, and this is remembered: %+v", record.Uploads["three"])
		}
	})
}
