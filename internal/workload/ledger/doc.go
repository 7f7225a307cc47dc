// Package ledger is the hand-over workload: a message broker's write path in
// which every message of every producer goes through one ledger executor. It
// follows Apache Pulsar's managed ledger.
//
// # Processes
//
// The broker, which is the process to observe, starts the others from its own
// executable: the load generator (producers and consumers, so that all
// latencies are read off one clock) and the bookie, the log on disk, or up to
// three of them. They share the broker's cores, as tests on one machine do.
//
//	load ──publish──▶ connection ──add──▶ ledger executor ──append──▶ bookie
//	     ◀─receipt───            ◀────────  response    ◀──────────
//	     ◀─deliver─── dispatcher ◀──wake──
//
// A connection's goroutine hands each message to the ledger executor by
// itself. There it costs Options.Work, becomes an entry and is sent to the
// bookie, which answers in groups; each answered entry is a response task on
// the same executor. That acknowledges the message and, if the subscription's
// cursor waits for entries, queues its wake-up as one more task. Responses and
// wake-ups thus wait behind whatever was published in the meantime.
//
// # Arms
//
//   - baseline: one task a message, on handover.Queue, a mutex and a condition.
//   - batched: messages go through a handover.BatchingExecutor; responses and
//     wake-ups go to the executor itself, past all messages but one batch.
//   - lockfree: as baseline, on a queue without a lock.
//   - twolane: as baseline, but responses and wake-ups are served first.
//   - twolock: as baseline, on a queue with the consumer's lock apart.
//   - endtoend: chains of messages all the way, see chainTask.
//
// lockfree takes away the lock alone and twolane the service order alone.
//
// # Defaults, and why
//
//   - 500 producers, 20 consumers, 100,000 in flight, 128 bytes, 1,000,000
//     devices with one message in flight each, topic-wide deduplication: the
//     reference's iot-telemetry-max-rate. A device belongs to one producer.
//   - A goroutine a connection rather than event loops (Loops). What blocks on
//     the queue lock is a *preempted* holder, some 3 ms at a time; the more
//     goroutines meet it in that time, the more of them wait. In 6 s windows on
//     two busy cores the adds waited 0.2 to 2.5 s a million messages on this lock,
//     0.07 s with 16 loops; under batching less than 0.001 s.
//   - 0.5 µs of work. The executor, one goroutine, must be the bottleneck
//     (busy ≥ 95 %), and dispatch must keep up (delivered ≥ 95 %). Both held from 0.5 to
//     2 µs; below, the sockets are the bottleneck. More work hides the lock.
//   - Bursts of 32. A producer that writes upon each receipt makes the
//     sockets, not the executor, the bottleneck.
//   - Windows of 20 × in flight, and 3 × to warm up: in baseline the cursor wakes
//     once a pass of the queue and then delivers tens of thousands at once,
//     so shorter windows begin or end within a pass.
//   - Unix sockets, abstract ones, that leave no files; --network tcp is the
//     same over loopback ports. Segments are unlinked as soon as they are open.
//   - One bookie that answers once it has written. Ensembles, fsync and
//     journals that outlive a bookie are on request; see journal.
//
// # Validity
//
// Each key's messages must arrive once, in order and unaltered; that is
// verified per message, and at the end that none is missing. A window is unfit
// to compare if the subscription fell behind, if Little's law is off, or if,
// unpaced, the executor was idle; see judgeWindow.
//
// # Left out of this cut
//
// Acknowledgements by consumers (and so pending-ack maps, cursor positions,
// redelivery), more than one subscription, consumers that come and go,
// rollover of ledgers, connection throttling; consumers' connections are served by
// goroutines even where producers are on event loops.
package ledger
