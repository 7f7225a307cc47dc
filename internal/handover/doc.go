// Package handover holds the primitives under study: the ways in which many
// goroutines hand tasks to one.
//
// A SingleExecutor runs tasks on one goroutine and sleeps on a TaskQueue. Three
// kinds of queue differ in what submitters meet at:
//
//   - Queue: a growable ring under one mutex, which every submitter takes once
//     a task and the executor once a batch;
//   - TwoLane: the same lock, but control tasks are served first, which tells
//     the effect of service order from that of the lock;
//   - BlockingMPSC: linked chunks, one compare-and-swap a task and no lock
//     unless the executor sleeps.
//
// A BatchingExecutor stands in front of any Executor: submitters append to an
// MPSC queue, and one delegate task runs a whole batch of it.
//
// Handing over a pointer to a pooled struct allocates nothing once a queue has
// seen its peak; queues keep the memory of their peak.
package handover
