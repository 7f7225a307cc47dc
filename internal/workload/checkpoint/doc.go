// Package checkpoint is the checkpoint-trigger workload: the pipelines of a
// stream processor's member, each of which is to start a checkpoint once per
// interval, and the schedulers that run those triggers. It follows Apache
// SeaTunnel's checkpoint coordinators.
//
// # Arms
//
//   - perpipeline: each pipeline has a timer with two threads of its own. Nothing
//     is shared, and nothing bounds the number of threads.
//   - shared: two timer threads for all pipelines hand due triggers over an
//     unbounded queue to at most max(8, 2 × cores) dispatch threads. Bounded
//     threads, and no trigger is ever dropped; a few slow pipelines delay all.
//   - lanes: ours. As many threads as shared has in all wait for the due time
//     and run the body themselves, without a hand-over between the two; the last
//     to become idle is the first to be woken. Two of the threads never run a
//     pipeline whose latest bodies took over a millisecond. It gives up fairness
//     among idle threads, a pipeline's first trigger counts as slow, and a
//     pipeline that turns slow takes a fast thread once.
//   - afterfunc: time.AfterFunc, a goroutine for each trigger. The least delay and
//     the least code, and nothing is bounded: as many bodies run at once as are
//     due, with what they hold; where a body blocks its thread in the kernel, as
//     many threads. It hides an overload from whoever looks at delays.
//   - savepoint, savepointfixed: shared, while savepoints are asked for. In the
//     first a savepoint sleeps under the coordinator lock until the pending
//     checkpoint is complete, as the original does: the pipeline's next trigger
//     then blocks a dispatch thread, and eight such all. In the second it sleeps
//     without the lock.
//
// The schedulers are written with heaps, locks and conditions of their own, as
// the originals are: the runtime's timers and channels would take away what is
// under study. (A timed wait ends by a runtime timer, as a thread's by one of
// the kernel.) Their threads are goroutines locked to OS threads, or plain ones:
// Options.Family.
//
// # Loads
//
// Closed: a pipeline's next trigger is armed an interval after its last has run,
// as in the reference's benchmark (scheduleWithFixedDelay). At most one trigger
// of a pipeline is outstanding, so past saturation the delay levels off at
// W = P × S ÷ c − T − S for P pipelines, bodies of S, c dispatch threads and an
// interval of T. Open: triggers come due at a fixed rate; past saturation the
// backlog grows by P ÷ T − c ÷ S a second for as long as the load lasts.
//
// A body is a sleep, as in the reference: the wait for the checkpoint's barriers.
// It runs under the coordinator lock.
//
// # What is measured
//
// The reference's figure is a probe: an immediate trigger scheduled on the first
// pipeline, until the prober runs again. Beside it, of every trigger: its
// scheduling delay, from due until its body begins, and the part of that spent
// behind other triggers. The rest is the lateness of timers, up to 1 ms in an idle
// Go process, whose poller sleeps in whole milliseconds.
//
// # Validity
//
// Every task scheduled has run exactly once or was cancelled; at most one
// trigger of a pipeline runs at a time and its chain never breaks (closed load);
// at most one checkpoint of a pipeline is pending.
//
// # Left out
//
// Timeouts of checkpoints, schema changes and failures as events (the
// coordinator honours the states), storage, and distributed execution: tasks
// acknowledge after a fixed time.
package checkpoint
