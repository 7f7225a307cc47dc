package listener

// A gate bounds a consumer's callbacks in flight.
type gate int

const (
	noGate       gate = iota
	selfGate          // one in flight; the external executor polls the next message itself
	internalGate      // one in flight; the external executor asks the internal one to poll
)

// An arm is how messages go from the receiver queue to the listener.
type arm struct {
	gate         gate
	creditAtPoll bool // a permit returns when the message is polled, not when its callback begins
	runs         bool // messages that arrived together are handed over together, past the internal executor
	oneExecutor  bool // one external executor a consumer, whatever the subscription
	bounded      bool // outstanding messages are bounded: by the receiver queue, and one more with a gate
}

func armOf(name string) arm {
	switch name {
	case ArmA:
		return arm{creditAtPoll: true}
	case ArmB:
		return arm{gate: selfGate, creditAtPoll: true, bounded: true}
	case ArmC:
		return arm{gate: internalGate, creditAtPoll: true, bounded: true}
	case ArmD1:
		return arm{oneExecutor: true, bounded: true}
	case ArmE:
		return arm{runs: true, bounded: true}
	default:
		return arm{bounded: true} // D
	}
}

// maxInFlight is how many callbacks of one consumer may run at once.
func (p *pipeline) maxInFlight() int64 {
	if p.arm.gate != noGate {
		return 1
	}
	return int64(len(p.workers))
}

// maxOutstanding is how many messages of one topic may be sent with their
// callback not begun; 0 where nothing is promised. A child with a permit
// returned at its parent's request promises nothing: the parent's queue is
// beyond its count.
func (p *pipeline) maxOutstanding() int64 {
	switch {
	case !p.arm.bounded, p.arm.creditAtPoll && p.options.Topics > 1:
		return 0
	case p.arm.creditAtPoll:
		return int64(p.options.Receive) + 1
	default:
		return int64(p.options.Receive)
	}
}
