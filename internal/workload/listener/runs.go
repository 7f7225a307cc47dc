package listener

// Arm E: messages that arrived together are handed over together, by the I/O
// executor to the external ones.

// creditEvery is how many permits a run keeps back at most, as a share of the
// receiver queue: few enough that the broker is not held up.
const creditEvery = 16

// A run is messages of one topic for one external executor, in their order.
type run []message

// deliverRuns hands each external executor its share of the messages.
func (p *pipeline) deliverRuns(messages []message) {
	ends := make([]int, len(p.workers)+1) // ends[i] is where run i-1 ends and run i begins
	for i := range messages {
		ends[messages[i].worker.id+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := make(run, len(messages)) // by executor, and as they came within each
	for i := range messages {
		at := &ends[messages[i].worker.id]
		sorted[*at] = messages[i]
		*at++
	}
	begin := 0
	for i, w := range p.workers { // ends[i] is now where run i ends
		if r := sorted[begin:ends[i]]; len(r) > 0 {
			_ = w.executor.Execute(r) // shuts down after the last message
		}
		begin = ends[i]
	}
}

// Run calls the listener for each message. A permit returns once the callback
// has begun, a few together, at the latest with the run's last.
func (r run) Run() {
	c := r[0].via
	keep := max(c.pipeline.options.Receive/creditEvery, 1)
	for i := range r {
		r[i].start()
		if owed := i%keep + 1; owed == keep || i == len(r)-1 {
			c.credit(int64(owed))
		}
		r[i].receive()
	}
}
