// Package listener is the listener hand-over workload: a message client that
// passes each message through several threads before the application's listener
// sees it. It follows Apache Pulsar's Java client.
//
// # The pipeline
//
//	broker ─▶ I/O ─▶ internal executor ─▶ receiver queue ─▶ external executor ─▶ listener
//	   ▲                                                          │
//	   └──────────── flow: permits, half a queue at a time ───────┘
//
// The broker's side of a topic sends a message for each permit it was granted, on
// the I/O executor. The consumer's pinned internal executor puts it into the
// receiver queue and polls that queue; a pinned external executor, one of the
// listener threads, calls the listener. The first grant is the receiver queue's
// size; permits are returned once half as many have gathered.
//
// With a Key_Shared subscription the external executor is chosen by the key's
// hash, so that the messages of a key keep their order while keys run in
// parallel; otherwise a consumer has one. A consumer of several topics is a
// parent with a child a topic: a child hands a message to its parent when the
// parent asks for one, and gets the permit back itself.
//
// # Arms
//
//	     who polls the receiver queue                     in flight         permits return
//	A    internal, until it is empty                      no bound          when polled
//	B    internal on arrival, external after a callback   1                 when polled
//	C    internal, asked again after each callback        1                 when polled
//	D    internal, until it is empty                      receiver queue    at the callback's begin
//	D1   as D, but one external executor a consumer       receiver queue    at the callback's begin
//	E    nobody: I/O hands runs of messages over          receiver queue    at a callback's begin
//
// They are the stations of the reference: A until its change 11455, B after it, C
// after 13023 and 13273, D after 15162. C waits for two wake-ups between any
// two callbacks: the external executor wakes the internal one, which wakes an
// external one. D has no way back. D1 tells D's two gains apart: C → D1 is
// the wake-ups, D1 → D the keys that run in parallel.
//
// E hands over what arrived together as one task for each external executor, on
// the I/O executor itself, which sorts it by key and never waits; it returns
// permits a few at a time. The order of a key, one callback at a time for each
// external executor, and the bound on outstanding messages are D's. What a client
// orders with its messages by way of the internal executor, as a seek, needs a
// check before the callback instead.
//
// B claims its gate before it polls. The original looked at the gate, polled and
// then closed it, so that two threads could both poll, out of order: the
// race that 13023 repaired. A test plants it.
//
// # Verified in every run
//
// Each message once and each key's in order (workload.Tracker); callbacks of a
// consumer in flight at once: 1 in B and C, else the listener threads; messages
// outstanding, that is sent and their callback not begun: at most the receiver queue
// in D, D1 and E, and one more in B and C, which return a permit before they hand
// the message over. A promises nothing, and Backlog bounds it: beyond
// that, I/O is held, so that its memory is bounded too.
//
// # Defaults, and why
//
//   - Executors own an OS thread each (Locked), as Java's do. A wake-up then
//     crosses threads. Goroutines that wake each other mostly stay on one
//     thread, and the wake-up is some hundred nanoseconds.
//   - One consumer of one topic, receiver queue 1000, Key_Shared, 4 listener
//     threads: the reference's defaults but for the threads.
//   - 3.5 µs of work in the callback: D then delivers about 450,000 messages a second on
//     two quiet cores, the reference's rate.
//   - Nothing crosses a socket: the reference's broker was not the bottleneck, and
//     an I/O thread that parses frames costs every arm the same.
package listener
