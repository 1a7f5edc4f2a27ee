package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// bars shows one bar for each of the first running steps, and one for all of them.
type bars struct {
	container *mpb.Progress
	all       *mpb.Bar
	most      int    // bars of steps at a time
	back      func() // gives stderr back
	shown     map[string]*stepBar
}

// stepBar is a bar with what stands beside it.
type stepBar struct {
	bar *mpb.Bar

	mu    sync.Mutex // guards phase, which the drawing goroutine reads
	phase string
}

// mostBars keeps a big apply from filling the screen.
const mostBars = 12

const barWidth = 30 // columns

func newBars(u *ui, steps int) *bars {
	b := &bars{most: mostBars, shown: map[string]*stepBar{}}
	if _, height, err := term.GetSize(int(u.errFile.Fd())); err == nil {
		b.most = max(min(mostBars, height-3), 1)
	}
	b.container = mpb.New(mpb.WithOutput(u.errFile), mpb.WithWidth(barWidth))
	b.back = u.err.divert(b.container)
	b.all = b.container.AddBar(int64(steps), mpb.BarPriority(1<<30), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name("all steps ", decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d"), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 7})))
	return b
}

func (b *bars) start(id, title string) {
	if len(b.shown) >= b.most {
		return
	}
	s := &stepBar{}
	s.bar = b.container.AddBar(0, mpb.BarRemoveOnComplete(), mpb.BarFillerMiddleware(onlyWithTotal),
		mpb.PrependDecorators(decor.Name(title+" ", decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Any(s.text), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 7})))
	b.shown[id] = s
}

// onlyWithTotal leaves the place of a bar empty while nobody knows how much there is to do.
func onlyWithTotal(bar mpb.BarFiller) mpb.BarFiller {
	return mpb.BarFillerFunc(func(w io.Writer, stat decor.Statistics) error {
		if stat.Total > 0 {
			return bar.Fill(w, stat)
		}
		_, err := io.WriteString(w, strings.Repeat(" ", min(barWidth, stat.AvailableWidth)))
		return err
	})
}

// text is what stands behind the bar.
func (s *stepBar) text(stat decor.Statistics) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stat.Total > 0 {
		return fmt.Sprintf("%3d%% %s", 100*stat.Current/stat.Total, s.phase)
	}
	return s.phase
}

func (b *bars) progress(id string, r *runningStep) {
	s := b.shown[id]
	if s == nil {
		return
	}
	s.mu.Lock()
	s.phase = r.phase
	s.mu.Unlock()
	s.bar.SetTotal(r.total, false)
	s.bar.SetCurrent(min(r.done, max(r.total-1, 0))) // a full bar is an ended one
}

func (b *bars) end(id string, ended int) {
	b.all.SetCurrent(int64(ended))
	if s := b.shown[id]; s != nil {
		s.bar.Abort(true)
		delete(b.shown, id)
	}
}

// close takes the bars off the screen.
func (b *bars) close() {
	for _, s := range b.shown {
		s.bar.Abort(true)
	}
	b.all.Abort(true)
	b.container.Wait()
	b.back()
}
