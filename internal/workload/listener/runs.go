package listener

// Arm E: what arrived together is handed over together.

// creditEvery is how many permits a run keeps back at most, as a share of the
// receiver queue: few enough that the broker is not held up.
const creditEvery = 16

// runArrival puts messages of one topic that the I/O executor received together
// into the receiver queue and hands over what is in it.
type runArrival struct {
	via      *consumer
	messages []*message
}

func (a *runArrival) Run() {
	c := a.via
	_ = c.incoming.PutAll(a.messages) // is never closed
	switch {
	case c.parent == nil:
		c.dispatchAll()
	case c.asked:
		c.handUpAll()
	}
}

// handUpAll gives all messages of a child to its parent, or has the next ones go
// there.
func (c *consumer) handUpAll() {
	messages := c.takeAll()
	c.asked = len(messages) == 0
	if !c.asked {
		up := append([]*message(nil), messages...) // the buffer is the child's
		_ = c.parent.internal.Execute(&runParentArrival{c, up})
	}
}

// runParentArrival is runArrival of messages that come from a child.
type runParentArrival runArrival

func (a *runParentArrival) Run() {
	parent := a.via.parent
	_ = parent.incoming.PutAll(a.messages) // is never closed
	parent.dispatchAll()
	parent.askOrPause(a.via)
}

// takeAll empties the receiver queue into a buffer that the next call reuses.
func (c *consumer) takeAll() []*message {
	n := c.incoming.Len()
	if n == 0 {
		return nil
	}
	if cap(c.buf) < n {
		c.buf = make([]*message, max(n, c.pipeline.options.Receive))
	}
	n, _ = c.incoming.TakeAll(c.buf[:n]) // does not wait: this executor alone takes
	return c.buf[:n]
}

// dispatchAll hands each external executor its share of the receiver queue.
func (c *consumer) dispatchAll() {
	runs := make([]run, len(c.pipeline.workers))
	messages := c.takeAll()
	for i, m := range messages {
		messages[i] = nil
		runs[m.worker.id] = append(runs[m.worker.id], m)
	}
	for i, r := range runs {
		if len(r) > 0 {
			_ = c.pipeline.workers[i].executor.Execute(r)
		}
	}
}

// A run is messages of one consumer for one external executor. A permit returns
// once the callback has begun, at the latest with the run's last.
type run []*message

func (r run) Run() {
	keep := max(int64(r[0].via.pipeline.options.Receive)/creditEvery, 1)
	owed := int64(0)
	for i, m := range r {
		m.start()
		owed++
		if owed == keep || i == len(r)-1 || r[i+1].via != m.via {
			m.via.credit(owed)
			owed = 0
		}
		m.receive()
	}
}
