package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

const attempts = 3

// launchHistory is a history of launches from the uploads 1 (of the oldest build) to n, with a clock.
type launchHistory struct {
	trials Trials
	ready  []*resources.Upload
	now    time.Time
	image  resources.Image
}

func historyUpload(id string, build int) *resources.Upload {
	return &resources.Upload{ID: id, Image: "debian", Build: buildID(build), Provider: "cloud", State: resources.StateReady, Hash: "v1:debian"}
}

func newLaunches(builds int) *launchHistory {
	l := &launchHistory{trials: Trials{}, now: now, image: resources.Image{Name: "debian", AutoRevert: true}}
	for i := builds; i > 0; i-- {
		l.ready = append(l.ready, historyUpload(fmt.Sprint(i), i))
	}
	return l
}

func (l *launchHistory) upload(id string) *resources.Upload {
	return l.ready[slices.IndexFunc(l.ready, func(u *resources.Upload) bool { return u.ID == id })]
}

// end counts the end of a launch from an upload, and returns the upload of the next one.
func (l *launchHistory) end(id string, ok bool) string {
	var cause error
	if !ok {
		cause = errors.New("does not answer\nmore")
	}
	for _, t := range l.trials.CountLaunch(&l.image, &resources.Provider{LaunchAttempts: attempts}, l.ready, LaunchResult{Upload: l.upload(id), Now: l.now, Cause: cause}) {
		l.trials[t.Upload] = t
	}
	return l.next()
}

func (l *launchHistory) next() string {
	if c := l.choice(); c.Upload != nil {
		return c.Upload.ID
	}
	return ""
}

func (l *launchHistory) choice() BootChoice {
	return l.trials.BootChoice(&l.image, &resources.Provider{LaunchAttempts: attempts}, l.ready)
}

// test counts the end of a test node of an upload.
func (l *launchHistory) test(id string, ok bool) {
	var cause error
	if !ok {
		cause = errors.New("no network\nmore")
	}
	l.trials[id] = l.trials.CountTest(l.upload(id), Tester{Rule: l.image.Validate, Now: l.now}, cause)
}

// untested returns the upload that is to be tested next.
func (l *launchHistory) untested() string {
	if c := l.choice(); c.Untested != nil {
		return c.Untested.ID
	}
	return ""
}

// TestLaunchesReturn reads a story as words: "2+" and "2-" are launches from upload 2, "2!" its rejection, "2*" its promotion, "2^" its pin, "2~" the end of that,
// "10m" is a pause, "u3" another upload, "=2" the upload from which the next launch must boot, "=" that there is none.
func TestLaunchesReturn(t *testing.T) {
	tellAll(t, map[string]string{
		"the newest is used":                         "1+ 2+ =2",
		"a new one is tried":                         "1+ =2 2- =2 2- =2",
		"it fails as often as there are attempts":    "1+ 2- 2- 2- =1 1+ =1",
		"failures have to be in a row":               "1+ 2- 2- 2+ 2- 2- =2 2- =1",
		"the next build is tried":                    "1+ 2- 2- 2- =1 u3 =3 3+ =3",
		"a bad one returns past another bad one":     "1+ 2- 2- 2- =1 u3 3- 3- 3- =1",
		"a good one is the next to return to":        "1+ 2+ u3 3- 3- 3- =2",
		"nothing has launched before":                "2- 2- 2- 2- =2",
		"the older one fails too, at another time":   "1+ 1- 1- 1- 2h 2- 2- 2- =2",
		"promotion starts again":                     "1+ 2- 2- 2- =1 2* =2 2- 2- =2 2- =1",
		"both fail at once":                          "1+ 1- 1- 2- 2- 2- =2 2- =2",
		"the older one works again":                  "1+ 1- 1- 2- 2- 2- =2 1+ =2 2- 2- =2 2- =1",
		"the newer one works again":                  "1+ 1- 1- 2- 2- 2- =2 2+ =2",
		"one failure of the older one is no outage":  "1+ 1- 2- 2- 2- =1",
		"the older one fails much later":             "1+ 2- 2- 2- =1 1h 1- =1 1- =1 1- =2",
		"an outage after the return":                 "1+ 2- 2- 2- =1 1- =1 1- =2 2- =2 1+ =2 2- =2 2- =2 2- =1",
		"failures of an outage are forgotten":        "1+ 1- 1- 2- 2- 2- 2h 2- =2 2- =2 2- =1",
		"a person rejects":                           "1+ 2+ 2! =1 1+ =1 u3 =3",
		"a rejected one needs no launch before":      "2! =1",
		"everything is rejected":                     "1+ 2! 1! = 1* =1",
		"a rejected and a failing one":               "1+ u3 3! =2 2- 2- 2- =1",
		"a pinned one is used":                       "1+ 2+ 1^ =1 1- 1- 1- =1 u3 =1 1~ =3",
		"the rest fails":                             "2! 1- 1- 1- =1",
		"a launch that began before ends well later": "1+ 2- 2- 2- =1 2+ =2",
	}, func(*resources.Image) {})
}

// TestValidationStories reads stories of an image that needs two successful test nodes and is rejected after two failed ones. In addition
// to the words of TestLaunchesReturn, "t2+" and "t2-" are test nodes of upload 2, "?2" is the upload to test, "?" that there is none.
func TestValidationStories(t *testing.T) {
	tellAll(t, map[string]string{
		"nothing is validated":                      "= ?2 1+ =1 ?2",
		"one node is not enough":                    "1+ ?2 t2+ =1 ?2 t2+ =2 ?",
		"it is rejected":                            "1+ t2- =1 ?2 t2- =1 ? u3 ?3 =1 t3+ t3+ =3 ?",
		"failures have to be more than that":        "1+ t2+ t2- t2+ =2 ?",
		"a verdict for an older build":              "1+ u3 ?3 t3+ t3+ =3 ? t2+ t2+ =3 ?",
		"an older one is tested after a rejection":  "1+ u3 t3- t3- ?2 =1 t2+ t2+ =2 ?",
		"a newer one replaces the one under test":   "1+ t2+ u3 ?3 =1 t3+ t3+ =3",
		"launches return between validated builds":  "1+ t2+ t2+ =2 2- 2- 2- =1 ?",
		"a person rejects what is not tested":       "1+ 2! =1 ? u3 ?3",
		"nothing to return to":                      "t2- t2- = ?1 t1- t1- = ?",
		"an outage rejects nothing":                 "1+ 1- 1- t2- t2- =1 ?2 1+ =1 t2- ?2",
		"a late success does not end the rejection": "1+ t2- t2- t2+ t2+ =1 ?",
	}, func(img *resources.Image) { img.Validate = &resources.Validation{Nodes: 2, Attempts: 2} })
}

// TestRolloutStories reads stories of an image with a rollout: 10 % until two launches succeed, 50 % until one does, after an hour at least. In
// addition to the other words, "%2@10" is a rollout of upload 2 at 10 %, "%" that there is none.
func TestRolloutStories(t *testing.T) {
	tellAll(t, map[string]string{
		"stage by stage":                             "1+ =1 %2@10 2+ %2@10 2+ =1 %2@50 2h 2+ =2 %",
		"the pause has to pass":                      "1+ 2+ 2+ %2@50 2+ 2+ %2@50 1h 2+ =2 %",
		"it returns and stays so":                    "1+ 2+ 2- 2- %2@10 2- =1 % 1+ =1 %",
		"a success between failures":                 "1+ 2- 2- 2+ 2- %2@10 2+ %2@50",
		"without an older build all launches use it": "=2 % 2+ =2 %",
		"an older build that fails is no base":       "1+ 1- 1- 1- 2h =2 %",
		"a newer build starts against the base":      "1+ 2+ 2+ %2@50 u3 =1 %3@10 3+ 3+ %3@50 2h 3+ =3 %",
		"a newer bad build returns to the base":      "1+ 2+ 2+ %2@50 u3 3- 3- 3- =1 %",
		"a rejected one too":                         "1+ 2+ 2+ %2@50 u3 3+ 3! =1 %",
		"a newer one that has never launched":        "1+ 2+ 2+ %2@50 u3 %3@10 3! =1 %2@50",
		"late launches of an old build do not count": "1+ 2+ u3 2+ 2+ 2+ %3@10",
		"a person promotes":                          "1+ 2+ %2@10 2c =2 %",
		"a pin":                                      "1+ 2+ 2^ =2 % 2~ =1 %2@10",
	}, func(img *resources.Image) {
		img.Rollout = &resources.Rollout{Stages: []resources.RolloutStage{{Share: 10, Successes: 2}, {Share: 50, Successes: 1, Pause: time.Hour}}}
	})
}

// A block that is added later changes nothing for the upload in use.
func TestRolloutOfAnUploadInUse(t *testing.T) {
	l := newLaunches(2)
	l.tell(t, "1+", "")
	l.tell(t, "2+", "")
	l.image.Rollout = &resources.Rollout{Stages: []resources.RolloutStage{{Share: 10, Successes: 2}}}
	for _, word := range []string{"=2", "%", "u3", "=2", "%3@10"} {
		l.tell(t, word, word)
	}
}

func TestBuildsOfOthersCountAsValidated(t *testing.T) {
	l := newLaunches(2)
	l.image.Validate = &resources.Validation{Nodes: 1, Attempts: 1}
	l.ready[0].Hash = "" // Nodepool has built it
	if got := l.next(); got != "2" || l.untested() != "" {
		t.Errorf("nodes boot from %q, to be tested is %q", got, l.untested())
	}
}

// tellAll tells each story about an image with two uploads.
func tellAll(t *testing.T, stories map[string]string, change func(*resources.Image)) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			l := newLaunches(2)
			change(&l.image)
			for i, word := range strings.Fields(story) {
				l.tell(t, word, strings.Join(strings.Fields(story)[:i+1], " "))
			}
		})
	}
}

func (l *launchHistory) tell(t *testing.T, word, story string) {
	last := word[:len(word)-1]
	switch {
	case word[0] == '=':
		if got := l.next(); got != word[1:] {
			t.Fatalf("%s: the next launch boots from %q", story, got)
		}
	case word[0] == 'u':
		l.ready = append([]*resources.Upload{historyUpload(word[1:], 3)}, l.ready...)
	case word[0] == '?':
		if got := l.untested(); got != word[1:] {
			t.Fatalf("%s: the upload to test is %q", story, got)
		}
	case word[0] == '%':
		got := "%"
		if r := l.choice().Rollout; r != nil {
			got = fmt.Sprintf("%%%s@%d", r.Upload.ID, r.Share)
		}
		if got != word {
			t.Fatalf("%s: the rollout is %q", story, got)
		}
	case word[0] == 't':
		l.now = l.now.Add(time.Second)
		l.test(last[1:], strings.HasSuffix(word, "+"))
	case strings.ContainsAny(word, "+-"):
		l.now = l.now.Add(time.Second)
		l.end(last, strings.HasSuffix(word, "+"))
	case word[len(word)-1] == '!':
		c := resources.Trial{Upload: last}
		if before := l.trials[last]; before != nil {
			c = *before
		}
		c.Rejected = &resources.Decision{Time: l.now, Actor: "anna@host"}
		l.trials[last] = &c
	case strings.ContainsAny(word, "^~"):
		c := *l.trials[last]
		c.Pinned = nil
		if strings.HasSuffix(word, "^") {
			c.Pinned = &resources.Decision{Time: l.now, Actor: "anna@host"}
		}
		l.trials[last] = &c
	case word[len(word)-1] == 'c':
		c := *l.trials[last]
		c.Completed = l.now
		l.trials[last] = &c
	case word[len(word)-1] == '*':
		c := *l.trials[last]
		c.Rejected, c.Failures, c.Since, c.Failed = nil, 0, time.Time{}, time.Time{}
		l.trials[last] = &c
	default:
		pause, err := time.ParseDuration(word)
		if err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(pause)
	}
}

// In any history, launches use the newest upload, or one that has launched and does not fail while the newer ones do.
func TestChoiceOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLaunches(rapid.IntRange(1, 4).Draw(t, "builds"))
		for range rapid.IntRange(0, 30).Draw(t, "launches") {
			id := l.next()
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 { // it began before the newest change
				id = rapid.SampledFrom(l.ready).Draw(t, "upload").ID
			}
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
			ok := rapid.Bool().Draw(t, "ok")
			next := l.end(id, ok)
			c := l.trials.Choose(l.ready, attempts)
			if ok && l.trials[id].Failures != 0 {
				t.Fatalf("failures after a success: %+v", l.trials[id])
			}
			if next != l.ready[0].ID {
				newest, chosen := l.trials[l.ready[0].ID], l.trials[next]
				if newest.Failures < attempts || chosen.Launched.IsZero() || !c.IsReturn() {
					t.Fatalf("launches return to %s: %+v, newest %+v", next, chosen, newest)
				}
			}
			if none := l.trials.Choose(l.ready, 0); none.Upload != l.ready[0] || none.IsReturn() {
				t.Fatalf("without auto_revert launches boot from %+v", none.Upload)
			}
		}
	})
}

func TestSuccessesAreRecordedOncePerHour(t *testing.T) {
	l := newLaunches(1)
	writes := 0
	for range 120 {
		l.now = l.now.Add(time.Minute)
		changed := l.trials.Count(l.ready[0], l.now, nil, attempts)
		writes += len(changed)
		for _, c := range changed {
			l.trials[c.Upload] = c
		}
	}
	if writes != 2 {
		t.Errorf("%d records in two hours", writes)
	}
	l.trials["1"].Launched = l.now.Add(24 * time.Hour) // the clock was set back
	if len(l.trials.Count(l.ready[0], l.now, nil, attempts)) != 1 {
		t.Error("a date in the future stays")
	}
}

// secondBuild adds a newer build with its upload, from which nothing has been launched.
func secondBuild(d *resources.Desired, o *Observed) {
	d.Images[0].AutoRevert, d.Providers[0].LaunchAttempts = true, attempts
	o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(2), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
		StateTime: now.Add(-30 * time.Minute), Hash: "v1:image", Files: []resources.ImageFile{{Format: "qcow2", Name: "debian-" + buildID(2) + ".qcow2"}}})
	o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: "2", Image: "debian", Build: buildID(2), Provider: "cloud", State: resources.StateReady,
		StateTime: now.Add(-20 * time.Minute), Format: "qcow2", ExternalID: "image-2"})
	o.Files = append(o.Files, ImageFile{Name: "debian-" + buildID(2) + ".qcow2"})
	view := o.Providers["cloud"]
	view.Images = append(view.Images, resources.RemoteImage{ID: "image-2", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "2"}})
	o.Providers["cloud"] = view
}

func trial(upload string, build int, failures int) *resources.Trial {
	t := &resources.Trial{Upload: upload, Build: buildID(build), Failures: failures}
	if failures == 0 {
		t.Launched = now.Add(-time.Hour)
	} else {
		t.Since, t.Failed, t.Error = now.Add(-time.Minute), now.Add(-time.Second), "node_launched_hook: exit status 1"
	}
	return t
}

// planned returns the uploads of the launches, the deleted records, and the notes about the return.
func planned(p Plan) (uploads, deleted, notes []string) {
	for _, s := range p.Steps {
		switch {
		case s.Kind == KindLaunch:
			uploads = append(uploads, s.Upload)
		case s.Action == ActionDelete:
			deleted = append(deleted, s.ID)
		}
	}
	for _, n := range p.Notes {
		if n.Code == "returned" || n.Code == "no-return" || n.Code == "pinned" {
			notes = append(notes, string(n.Severity)+" "+string(n.Address)+": "+n.Text)
		}
	}
	return uploads, deleted, notes
}

func TestPlanReturnsToTheOlderBuild(t *testing.T) {
	failed := "3 launches in a row from build " + buildID(2) + " failed, the last at 2026-11-20T11:59:59Z: node_launched_hook: exit status 1"
	for name, c := range map[string]struct {
		trials     []*resources.Trial
		keep       int
		disable    bool
		want       string // upload
		deleted    bool   // the older upload
		note       string
		unlaunched bool
	}{
		"a new build":           {trials: []*resources.Trial{trial("1", 1, 0)}, want: "2"},
		"it has failed":         {trials: []*resources.Trial{trial("1", 1, 0), trial("2", 2, 3)}, want: "1", note: "nodes of debian in cloud boot from the older build " + buildID(1) + ": " + failed},
		"it has failed twice":   {trials: []*resources.Trial{trial("1", 1, 0), trial("2", 2, 2)}, want: "2"},
		"no older one launched": {trials: []*resources.Trial{trial("2", 2, 3)}, want: "2", note: "debian has no older build in cloud that has launched, and " + failed},
		"auto_revert is off":    {trials: []*resources.Trial{trial("1", 1, 0), trial("2", 2, 3)}, disable: true, want: "2"},
		"keep = 1 keeps it":     {trials: []*resources.Trial{trial("1", 1, 0)}, keep: 1, want: "2"},
		"keep = 1 while it fails": {trials: []*resources.Trial{trial("1", 1, 0), trial("2", 2, 3)}, keep: 1, want: "1",
			note: "nodes of debian in cloud boot from the older build " + buildID(1)},
		"keep = 1 after a launch":      {trials: []*resources.Trial{trial("1", 1, 0), trial("2", 2, 0)}, keep: 1, want: "2", deleted: true},
		"keep = 1 without auto_revert": {trials: []*resources.Trial{trial("1", 1, 0)}, keep: 1, disable: true, want: "2", deleted: true},
		"keep = 1 keeps a pinned one": {trials: []*resources.Trial{{Upload: "1", Build: buildID(1), Pinned: &resources.Decision{Time: now, Actor: "anna@host", Reason: "bug 7"}},
			trial("2", 2, 0)}, keep: 1, want: "1", note: "info provider.cloud.image.debian: nodes of debian in cloud boot from build " + buildID(1) +
			", which was pinned by anna@host at 2026-11-20T12:00:00Z: bug 7; npctl image unpin debian ends this"},
		"both are rejected": {trials: []*resources.Trial{{Upload: "1", Build: buildID(1), Rejected: &resources.Decision{Time: now, Actor: "anna@host"}},
			{Upload: "2", Build: buildID(2), Rejected: &resources.Decision{Time: now, Actor: "anna@host", Reason: "no network"}}}, unlaunched: true,
			note: "no node of debian is launched in cloud: build " + buildID(2) + " was rejected by anna@host at 2026-11-20T12:00:00Z: no network, and there is no other build"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			secondBuild(&d, &o)
			o.Records.Nodes = o.Records.Nodes[2:] // both cloud nodes are to be launched
			view := o.Providers["cloud"]
			view.Instances = nil
			o.Providers["cloud"] = view
			o.Records.Trials = c.trials
			d.Images[0].AutoRevert = !c.disable
			if c.keep > 0 {
				d.Images[0].Keep = c.keep
			}
			p := Compute(d, o, Options{Explain: true})
			uploads, deleted, notes := planned(p)
			want := []string{c.want, c.want}
			if c.unlaunched {
				want = nil
			}
			if !slices.Equal(uploads, want) {
				t.Errorf("launches from %q, want %q", uploads, want)
			}
			if gone := slices.Contains(deleted, "delete upload 1"); gone != c.deleted {
				t.Errorf("deleted: %q", deleted)
			}
			if got := strings.Join(notes, "\n"); (c.note == "") != (got == "") || !strings.Contains(got, c.note) {
				t.Errorf("notes:\n%s\nwant:\n%s", got, c.note)
			}
		})
	}
}

func TestImageWithoutABuildToLaunchHasNoChoice(t *testing.T) {
	d, o := fleet(), settled()
	secondBuild(&d, &o)
	if got := BootChoices(d, o.Records); len(got) != 1 || got[0].Upload.ID != "2" {
		t.Errorf("choices %+v", got)
	}
	rejected := &resources.Decision{Time: now, Actor: "anna@host"}
	o.Records.Trials = []*resources.Trial{{Upload: "1", Rejected: rejected}, {Upload: "2", Rejected: rejected}}
	if got := BootChoices(d, o.Records); len(got) != 0 {
		t.Errorf("choices of rejected builds %+v", got)
	}
}
