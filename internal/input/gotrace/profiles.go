package gotrace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/exp/trace"

	"contend/internal/input/stacks"
	"contend/internal/recording"
)

// stackTable numbers stacks across the generations of a trace, each of which
// has a table of its own. 0 is none.
type stackTable struct {
	frames  [][]stacks.Frame
	byName  map[string]int
	handles map[trace.Stack]int // of the present generation
	buf     []byte
}

func newStackTable() stackTable {
	return stackTable{frames: [][]stacks.Frame{nil}, byName: map[string]int{}, handles: map[trace.Stack]int{}}
}

// forget lets go of a generation's tables, which the handles keep alive.
func (t *stackTable) forget() { clear(t.handles) }

func (t *stackTable) id(s trace.Stack) int {
	if s == trace.NoStack {
		return 0
	}
	if id, ok := t.handles[s]; ok {
		return id
	}
	var frames []stacks.Frame
	t.buf = t.buf[:0]
	for f := range s.Frames() {
		frames = append(frames, stacks.Frame{Function: f.Func, File: f.File, Line: int64(f.Line)})
		t.buf = fmt.Appendf(t.buf, "%s\x00%s\x00%d\x00", f.Func, f.File, f.Line)
	}
	id := 0
	if len(frames) > 0 {
		var ok bool
		if id, ok = t.byName[string(t.buf)]; !ok {
			id = len(t.frames)
			t.byName[string(t.buf)] = id
			t.frames = append(t.frames, frames)
		}
	}
	t.handles[s] = id
	return id
}

// profiles turns the sums into samples like those of a recording, in an order
// that does not depend on that of a map.
func (w *waits) profiles(started time.Time, length time.Duration) (waited, woke *profile.Profile) {
	wb, hb := stacks.New(started, length, true), stacks.New(started, length, true)
	keys := slices.SortedFunc(maps.Keys(w.sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(w.sums[b].delay, w.sums[a].delay), cmp.Compare(a.stack, b.stack), cmp.Compare(a.waker, b.waker),
			cmp.Compare(a.reason, b.reason), cmp.Compare(a.open, b.open), cmp.Compare(a.bucket, b.bucket))
	})
	type woken struct {
		waker int
		wait  string
	}
	wakers := map[woken]*sum{}
	for _, k := range keys {
		v := w.sums[k]
		frames := entered(w.stacks.frames[k.stack])
		s := wb.Add(wb.Stack(frames), []int64{v.count, v.delay, v.runQueue}, map[string]string{
			stacks.Wait: k.reason, stacks.Class: classes[k.reason], stacks.Open: k.open, stacks.Waker: site(w.stacks.frames[k.waker])})
		stacks.SetNanoseconds(s, stacks.Max, v.max)
		if k.bucket > 0 {
			stacks.SetNanoseconds(s, stacks.Duration, k.bucket)
		}
		if k.waker != 0 && k.reason == reasonSync && !joins(w.stacks.frames[k.stack]) {
			id := woken{k.waker, k.reason}
			if wakers[id] == nil {
				wakers[id] = &sum{}
			}
			wakers[id].count += v.count
			wakers[id].delay += v.delay
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(wakers), func(a, b woken) int { return cmp.Compare(a.waker, b.waker) }) {
		v := wakers[id]
		hb.Add(hb.Stack(w.stacks.frames[id.waker]), []int64{v.count, v.delay, 0}, map[string]string{
			stacks.Wait: id.wait, stacks.Class: recording.ClassLock, recording.LabelCharge: recording.ChargeWoke})
	}
	return wb.Profile, hb.Profile
}

// joins tells a wait for a WaitGroup, which has wakers but no holders.
func joins(frames []stacks.Frame) bool {
	return slices.ContainsFunc(frames, func(f stacks.Frame) bool { return f.Function == "sync.(*WaitGroup).Wait" })
}

// reasonSync is how a trace calls a wait for any of the runtime's semaphores.
const reasonSync = "sync"

// entered takes off the frames of the runtime's semaphore, by which every lock's
// waits end, so that a stack begins where a recording's does.
func entered(frames []stacks.Frame) []stacks.Frame {
	for len(frames) > 1 && parking[frames[0].Function] {
		frames = frames[1:]
	}
	return frames
}

var parking = map[string]bool{"runtime.gopark": true, "runtime.goparkunlock": true, "runtime.semacquire1": true}

// site is where the waker ended the wait: its first frame outside the packages
// that implement locks, as a recording's label has it.
func site(frames []stacks.Frame) string {
	if len(frames) == 0 {
		return ""
	}
	at := frames[0]
	for _, f := range frames {
		if !inLockCode(f.Function) {
			at = f
			break
		}
	}
	return fmt.Sprintf("%s %s:%d", at.Function, at.File, at.Line)
}

func inLockCode(function string) bool {
	for _, pkg := range [...]string{"runtime.", "sync.", "internal/sync."} {
		if strings.HasPrefix(function, pkg) {
			return true
		}
	}
	return false
}
