package handover

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// channelExecutor is the obvious thing to compare with: a goroutine that
// ranges over a buffered channel.
type channelExecutor chan Task

func (c channelExecutor) Execute(t Task) error {
	c <- t
	return nil
}

// benchmarkInFlight bounds the tasks handed over and not yet run, as in a
// broker's closed loop; without it a run measures how fast memory fills. Each
// producer yields when its share is used up.
const benchmarkInFlight = 16_384

// handovers are the ways to hand over: each returns an executor and its end.
var handovers = []struct {
	name  string
	start func() (Executor, func())
}{
	{"mutex", func() (Executor, func()) { return startSingle(NewQueue[Task]()) }},
	{"batching", func() (Executor, func()) {
		e, stop := startSingle(NewQueue[Task]())
		b, err := NewBatchingExecutor(e, BatchingOptions{MaxItems: DefaultMaxItems, MaxWeight: NoWeightLimit})
		if err != nil {
			panic(err)
		}
		return b, stop
	}},
	{"blockingmpsc", func() (Executor, func()) { return startSingle(NewBlockingMPSC[Task](DefaultChunkSize)) }},
	{"twolock", func() (Executor, func()) { return startSingle(NewTwoLock()) }},
	{"twolane", func() (Executor, func()) { return startSingle(NewTwoLane()) }},
	{"channel", func() (Executor, func()) {
		c := make(channelExecutor, benchmarkInFlight)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for t := range c {
				t.Run()
			}
		}()
		return c, func() { close(c); <-done }
	}},
}

func startSingle(q TaskQueue) (Executor, func()) {
	e := NewSingleExecutor(q, ExecutorOptions{})
	return e, func() { e.Shutdown(); e.Wait() }
}

// benchTask is one producer's task, handed over again and again, on cache lines
// of its own.
type benchTask struct {
	_    pad
	done atomic.Int64
	_    pad
}

func (t *benchTask) Run() { t.done.Add(1) }

// BenchmarkHandover measures one task's way from its producer until it has
// run. ns/op is wall time over tasks of all producers together; cpu-ns/op is
// the processor time of the whole process instead, waiting turns included,
// which other load on the machine disturbs less.
func BenchmarkHandover(b *testing.B) {
	for _, producers := range []int{1, 16, 500} {
		for _, h := range handovers {
			b.Run(fmt.Sprintf("by=%s/producers=%d", h.name, producers), func(b *testing.B) {
				e, stop := h.start()
				tasks := make([]benchTask, producers)
				window := int64(benchmarkInFlight / producers)
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				cpu := processorTime(b)
				for p := range producers {
					n := int64(b.N / producers)
					if p < b.N%producers {
						n++
					}
					wg.Go(func() {
						t := &tasks[p]
						for sent := range n {
							for sent-t.done.Load() >= window {
								runtime.Gosched()
							}
							if err := e.Execute(t); err != nil {
								b.Error(err)
								return
							}
						}
						for t.done.Load() < n {
							runtime.Gosched()
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(processorTime(b)-cpu)/float64(b.N), "cpu-ns/op")
				stop()
			})
		}
	}
}

// processorTime is what the process has used so far, in nanoseconds.
func processorTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
