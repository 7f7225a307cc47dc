package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"contend/internal/collect/target"
	"contend/internal/workload/child"
)

const (
	readyEvery = 50 * time.Millisecond // between two looks
	readyLook  = 5 * time.Second       // bounds one look
	// freeTime is how long the address of the run before may stay taken: a killed
	// process closes its sockets a moment later.
	freeTime = 5 * time.Second
)

// isAddress tells an address to connect to, HOST:PORT, from a command line.
func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func listening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLook)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	// TCP lets a connection to a free port of the range that outgoing ones are
	// given meet itself.
	if conn.LocalAddr().String() == conn.RemoteAddr().String() {
		return errors.Join(errors.New("nobody listens there"), conn.Close())
	}
	return conn.Close()
}

// unoccupied makes sure that nobody answers yet where the broker will: the load
// would reach, and the counter count, what is not observed.
func (s *commandSession) unoccupied(ctx context.Context) error {
	for begun := time.Now(); ; {
		where := ""
		if isAddress(s.Ready) && listening(ctx, s.Ready) == nil {
			where = s.Ready
		} else if s.Ops != nil {
			if _, err := s.Ops.Read(ctx); err == nil {
				where = s.Ops.String()
			}
		}
		switch {
		case where == "" || ctx.Err() != nil:
			return ctx.Err()
		case time.Since(begun) > freeTime:
			return fmt.Errorf("%s answers before the broker was started: stop what runs there, it is not what would be observed", where)
		}
		if err := sleep(ctx, readyEvery); err != nil {
			return err
		}
	}
}

// awaitReady waits until the broker is ready, and finds its process. A broker is
// ready when --ready says so: an address that accepts a connection, or a command
// that exits with status 0; when its operations counter can be read; and when
// a Go process is there to observe.
func (s *commandSession) awaitReady(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	var last error // before the time was up, which would say nothing
	for {
		err := s.look(within)
		if err == nil {
			return nil
		}
		if last == nil || within.Err() == nil {
			last = err
		}
		select {
		case <-s.broker.Exited():
			return ended(s.broker, "the broker")
		case <-ctx.Done():
			return ctx.Err()
		case <-within.Done():
			return fmt.Errorf("the broker was not ready within %v: %v%s", s.Patience, last, s.broker.Said())
		case <-time.After(readyEvery):
		}
		if errors.As(err, new(permanentError)) {
			return err
		}
	}
}

func (s *commandSession) look(ctx context.Context) error {
	if err := s.saysReady(ctx); err != nil {
		return err
	}
	if s.Ops != nil {
		if _, err := s.Ops.Read(ctx); err != nil {
			return err
		}
	}
	p, err := observed(s.broker)
	s.process = p
	return err
}

func (s *commandSession) saysReady(ctx context.Context) error {
	if s.Ready == "" {
		return nil
	}
	if isAddress(s.Ready) {
		return listening(ctx, s.Ready)
	}
	ctx, cancel := context.WithTimeout(ctx, readyLook)
	defer cancel()
	c, err := child.Shell(ctx, s.Ready, "the --ready command", nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // cannot fail
	select {
	case <-c.Exited():
	case <-s.broker.Exited():
		return errors.New("the broker ended")
	case <-ctx.Done():
		return errors.New("the --ready command does not end")
	}
	if status := c.ExitStatus(); status == statusNotExecutable || status == statusNotFound {
		return Permanent(c.Ended())
	}
	return c.Ended()
}

// observed finds the process to observe among those of the broker's command: its
// first one, or the one Go process that a shell, or the go command, has started.
func observed(c *child.Command) (*target.Process, error) {
	var found []*target.Process
	var refused error
	for _, pid := range c.Members() {
		p, err := target.Find(pid)
		switch {
		case errors.As(err, new(*target.NotGoError)), errors.Is(err, target.ErrNotFound), errors.Is(err, target.ErrExited):
		case err != nil:
			refused = err
		case p.Name == "go": // run, which builds and starts another
		case pid == c.PID():
			return p, nil
		default:
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("the broker's command runs several Go processes (%s, %d, and %s, %d): start the one to observe with exec",
			found[0].Name, found[0].PID, found[1].Name, found[1].PID)
	case refused != nil:
		return nil, Permanent(refused)
	}
	return nil, errors.New("its command runs no Go process")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
