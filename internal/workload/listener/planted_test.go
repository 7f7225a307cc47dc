package listener

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// run has a pipeline deliver some thousand messages and returns the verdict.
func (p *pipeline) run(t *testing.T) recording.Verify {
	t.Helper()
	defer p.close()
	p.start()
	for end := time.Now().Add(patience); p.received() < 3000; time.Sleep(time.Millisecond) {
		if p.verify(false).Reason != "" {
			break // what was planted has shown
		}
		if time.Now().After(end) {
			t.Fatalf("only %d messages received", p.received())
		}
	}
	p.drain()
	return p.verify(true)
}

// A broken promise must show in the verdict.
func TestBrokenPromisesAreCaught(t *testing.T) {
	for what, test := range map[string]struct {
		arm   string
		plant func(*pipeline)
		want  []string // one of them is found
	}{
		"nothing": {ArmD, func(*pipeline) {}, []string{""}},
		"permits returned at poll in D": {
			ArmD, func(p *pipeline) { p.arm.creditAtPoll = true }, []string{"outstanding"},
		},
		"permits returned twice in E": {
			ArmE, func(p *pipeline) {
				for _, s := range p.sources {
					s.flow(int64(p.options.Receive))
				}
			}, []string{"outstanding"},
		},
		"no gate in C": {
			ArmC, func(p *pipeline) {
				p.plant = func(c *consumer) {
					for c.dispatchNext() {
					}
				}
			}, []string{"in flight", "outstanding"},
		},
		"keys not pinned in D": {
			ArmD, func(p *pipeline) {
				next := 0
				p.plant = func(c *consumer) {
					for {
						m, ok := c.incoming.TryTake()
						if !ok {
							return
						}
						next++
						m.worker = p.workers[next%len(p.workers)]
						_ = m.worker.executor.Execute((*callback)(m))
					}
				}
			}, []string{"reordered"},
		},
		// The race of the original: two executors look at the gate, both poll,
		// and whoever polled first need not hand over first.
		"gate looked at, closed too late in B": {
			ArmB, func(p *pipeline) {
				p.plant = func(c *consumer) {
					if c.gate.Load() {
						return
					}
					m, ok := c.incoming.TryTake()
					if !ok {
						return
					}
					runtime.Gosched()
					c.gate.Store(true)
					c.credit(1)
					_ = m.worker.executor.Execute((*callback)(m))
				}
			}, []string{"reordered", "in flight", "outstanding"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			o := small(test.arm)
			o.Callback = 50 * time.Microsecond
			p := newPipeline(o, workload.CalibrateSpin())
			test.plant(p)
			v := p.run(t)
			for _, want := range test.want {
				if want == "" && v.OK || want != "" && strings.Contains(v.Reason, want) {
					return
				}
			}
			t.Errorf("verdict %+v, want one of %q", v, test.want)
		})
	}
}

// What could happen to messages must show in the verdict.
func TestPlantedFaultsAreCaught(t *testing.T) {
	for what, test := range map[string]struct {
		plant func(m []*message) []*message
		want  recording.Verify
	}{
		"nothing":   {func(m []*message) []*message { return m }, recording.Verify{OK: true}},
		"duplicate": {func(m []*message) []*message { return append(m, m[1]) }, recording.Verify{Duplicated: 1}},
		"reorder":   {func(m []*message) []*message { m[1], m[2] = m[2], m[1]; return m }, recording.Verify{Reordered: 1}},
		"loss":      {func(m []*message) []*message { return m[:3] }, recording.Verify{Lost: 1}},
		"panic":     {func(m []*message) []*message { m[3].worker = nil; return m }, recording.Verify{Lost: 1}},
	} {
		o := small(ArmD)
		o.Keys = 1
		p := newPipeline(o, 0)
		messages := p.sources[0].draw(4)
		var all []*message
		for i := range messages {
			all = append(all, &messages[i])
		}
		for _, m := range test.plant(all) {
			if err := p.consumers[0].internal.Execute((*arrival)(m)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.consumers[0].internal.Execute((*trigger)(p.consumers[0])); err != nil {
			t.Fatal(err)
		}
		p.io.Shutdown()
		p.internal[0].Shutdown() // runs what it was given
		p.internal[0].Wait()
		for _, w := range p.workers {
			w.executor.Shutdown()
			w.executor.Wait()
		}
		got := p.verify(true)
		if what == "panic" && !strings.Contains(got.Reason, "panicked") {
			t.Errorf("panic: %+v", got)
		}
		got.Reason = ""
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
		p.close()
	}
}
