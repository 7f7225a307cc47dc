package listener

// handUp gives a child's message to its parent, which asked for one.
func (c *consumer) handUp(m *message) {
	if c.pipeline.arm.creditAtPoll {
		c.credit(1)
	}
	_ = c.parent.internal.Execute((*parentArrival)(m)) // shuts down after the last message
}

// parentArrival puts a child's message into its parent's receiver queue.
type parentArrival message

func (a *parentArrival) Run() {
	m := (*message)(a)
	parent := m.via.parent
	_ = parent.incoming.Put(m)                      // is never closed
	_ = parent.internal.Execute((*trigger)(parent)) // this executor
	parent.askOrPause(m.via)
}

// askOrPause asks a child for its next message, or, the parent's queue being
// full, once it has room.
func (c *consumer) askOrPause(child *consumer) {
	if c.incoming.Len() >= c.pipeline.options.Receive {
		c.mu.Lock()
		c.paused = append(c.paused, child)
		c.mu.Unlock()
		return
	}
	_ = child.internal.Execute((*request)(child)) // shuts down after the last message
}

// resume asks paused children once the queue is at most half full.
func (c *consumer) resume() {
	if len(c.pipeline.children) == 0 || c.incoming.Len() > c.pipeline.options.Receive/2 {
		return
	}
	c.mu.Lock()
	paused := c.paused
	c.paused = nil
	c.mu.Unlock()
	for _, child := range paused {
		_ = child.internal.Execute((*request)(child)) // shuts down after the last message
	}
}

// request is a parent's wish for a child's next message.
type request consumer

func (r *request) Run() {
	c := (*consumer)(r)
	m, ok := c.incoming.TryTake()
	if !ok {
		c.asked = true
		return
	}
	c.handUp(m)
}
