package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"contend/internal/workload"
)

// childGrace is how long a child may take to end by itself.
const childGrace = 3 * time.Second

// Run is the broker process: it starts the load generator and the bookie,
// and measures windows as the conversation demands. It returns when told to
// stop, when ctx ends, or when anything fails; then the other processes have
// ended. An error is also sent as an "error" event.
func (o Options) Run(ctx context.Context, lines *workload.Conversation) error {
	err := run(ctx, o, lines)
	if err != nil {
		_ = lines.Send(workload.Event{Event: workload.EventError, Error: err.Error()}) // the recorder may be gone
	}
	return err
}

func run(ctx context.Context, o Options, lines *workload.Conversation) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Connect != "" {
		return connect(ctx, o, lines)
	}
	if o.Listen != "" {
		return errors.New("handover: --listen is for contend workload only; to record a broker that listens, use record --pid")
	}
	s, err := startSession(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	return s.blame(s.converse(lines))
}

// A session is the three processes of a run, seen from the broker.
type session struct {
	options    Options
	spin       float64 // multiplications a microsecond
	ctx        context.Context
	cancel     context.CancelCauseFunc
	broker     *broker
	load       *child
	listener   net.Listener
	setup      childSetup
	journals   string // the folder that this run made for them, "" none
	neighbours []*child

	mu      sync.Mutex
	bookies []*child // those of each place; a killed one may be replaced
	closed  bool
	profile *workload.ProfileServer
	events  chan workload.Event // of the load generator
	begin   counters            // when the load began
	unsound bool                // the journals do not hold what was acknowledged, or cannot be read
}

func startSession(ctx context.Context, o Options) (s *session, err error) {
	s = &session{options: o, events: make(chan workload.Event)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			err = s.blame(err)
			s.close()
		}
	}()
	s.spin = workload.CalibrateSpin() // before anything else uses the CPU
	if s.broker, err = newBroker(o, s.spin, s.cancel); err != nil {
		return s, err
	}
	if s.profile, err = o.Profiling.Start(); err != nil {
		return s, err
	}
	listener, err := listen(o.Network)
	if err != nil {
		return s, err
	}
	s.listener = listener
	if err := s.startBookies(); err != nil {
		return s, err
	}
	setup := s.setup
	if s.load, err = s.start(RoleLoad, setup, s.events); err != nil {
		return s, err
	}
	for range o.Neighbours {
		c, err := s.start(RoleNeighbour, setup, make(chan workload.Event))
		if err != nil {
			return s, err
		}
		s.neighbours = append(s.neighbours, c)
	}
	if err = s.broker.accept(s.ctx, listener, connectWithin); err != nil {
		return s, err
	}
	s.begin = s.broker.counters()
	return s, s.load.lines.Send(workload.Command{Command: commandStart})
}

// listen opens the broker's address: an ephemeral port, or an abstract name,
// which leaves no file behind.
func listen(network string) (net.Listener, error) {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = fmt.Sprintf("@contend-%d-%s", os.Getpid(), rand.Text())
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("the broker cannot listen: %w", err)
	}
	return l, nil
}

// start starts a child whose unexpected end ends the run.
func (s *session) start(role string, setup childSetup, events chan<- workload.Event) (*child, error) {
	c, err := startChild(role, setup)
	if err != nil {
		return nil, err
	}
	go c.events(s.ctx, events) // ends with the child, which close waits for
	go func() {
		<-c.done
		s.cancel(c.failure()) // the first cause counts
	}()
	return c, nil
}

// blame finds the root of a failure: when a child dies, the broken connection
// is often seen first.
func (s *session) blame(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("handover: interrupted: %w", err)
	}
	deadline := time.After(time.Second / 2)
	s.mu.Lock()
	bookies := slices.Clone(s.bookies)
	s.mu.Unlock()
	var bookie *child // one will do: a rest of patience is for whoever broke the connection
	if len(bookies) > 0 {
		bookie = bookies[0]
	}
	select {
	case <-bookie.ended():
	case <-s.load.ended():
	case <-deadline:
	}
	for _, c := range slices.Concat(bookies, []*child{s.load}, s.neighbours) {
		if c != nil && isClosed(c.done) && c.err != nil {
			err = c.err
		}
	}
	return fmt.Errorf("handover: %w", err)
}

// close ends the other processes and the broker.
func (s *session) close() {
	s.cancel(nil) // the end of a child is no failure any more
	if s.listener != nil {
		s.listener.Close()
	}
	if s.broker != nil {
		s.broker.close()
	}
	s.mu.Lock()
	s.closed = true
	bookies := s.bookies
	s.mu.Unlock()
	for _, c := range slices.Concat([]*child{s.load}, bookies, s.neighbours) {
		if c != nil {
			c.stop(childGrace)
		}
	}
	s.profile.Close()
	if s.journals != "" && !s.unsound && !errors.Is(context.Cause(s.ctx), errEntriesLost) {
		_ = os.RemoveAll(s.journals) // else they are evidence
	}
}
