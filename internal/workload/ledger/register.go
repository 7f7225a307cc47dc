package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// connectWithin bounds how long the other processes may take to connect.
const connectWithin = 20 * time.Second

// A guest is a connection that has said what it is.
type guest struct {
	conn   net.Conn
	frames *frameBuffer
	role   byte
	index  int
	next   uint64 // the entry that a bookie is due
	err    error  // what it said is wrong, or no more can come
}

// accept waits until every bookie and client has connected, and not longer than
// within, if that is not 0.
func (b *broker) accept(ctx context.Context, listener net.Listener, within time.Duration) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	if within > 0 {
		timer := time.AfterFunc(within, func() { listener.Close() })
		defer timer.Stop()
	}
	guests := make(chan guest)
	b.work.Go(func() { b.admit(listener, guests) })
	producers := make([]*producerConn, b.options.Producers)
	for missing := b.options.Ensemble + b.options.Consumers + b.options.Producers; missing > 0; {
		g := <-guests
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(g.err, net.ErrClosed) {
			return fmt.Errorf("the load generator and the bookies did not connect within %v", connectWithin)
		}
		isNew, err := b.register(g, producers)
		if err != nil {
			return err
		}
		if isNew {
			missing--
		}
	}
	if b.options.JournalDir != "" {
		b.goRun(func() error { return b.readmit(guests) })
	} else {
		listener.Close() // nobody else is awaited
	}
	return b.serve(producers)
}

// admit takes in connections until the listener is closed. They greet side by side,
// so that one that says nothing keeps no other waiting; one that breaks before it
// has said what it is was somebody looking whether the port is open.
func (b *broker) admit(listener net.Listener, guests chan<- guest) {
	pass := func(g guest) {
		select {
		case guests <- g:
		case <-b.done:
		}
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			pass(guest{err: fmt.Errorf("accepting a connection: %w", err)})
			return
		}
		b.owns(conn)
		b.work.Go(func() {
			g := greet(conn)
			if isBroken(g.err) {
				b.disowns(conn)
				return
			}
			pass(g)
		})
	}
}

// readmit takes in bookies that come back, until the session closes the listener.
func (b *broker) readmit(guests <-chan guest) error {
	for {
		select {
		case g := <-guests:
			if errors.Is(g.err, net.ErrClosed) {
				return nil
			}
			if g.err == nil && g.role != roleBookie {
				g.frames.close()
				b.disowns(g.conn) // all clients are there
				continue
			}
			if _, err := b.register(g, nil); err != nil {
				return err
			}
		case <-b.done:
			return nil
		}
	}
}

// owns notes a connection, so that close ends it.
func (b *broker) owns(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[conn] = true
	if b.stopping.Load() {
		conn.Close()
	}
}

// disowns closes a connection that the broker has no use for.
func (b *broker) disowns(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, conn)
	conn.Close()
}

// greet reads the frame by which a connection says what it is, and of a bookie the
// one that says which entry it is due.
func greet(conn net.Conn) guest {
	g := guest{conn: conn, frames: newFrameBuffer(slabSize)}
	g.err = g.hear()
	if g.err != nil {
		g.frames.close()
		g.err = fmt.Errorf("registering a connection: %w", g.err)
	}
	return g
}

func (g *guest) hear() error {
	_ = g.conn.SetReadDeadline(time.Now().Add(connectWithin)) // fails on closed connections only, as the next
	body, err := g.expect(kindHello)
	if err != nil {
		return err
	}
	if g.role, g.index, err = parseHello(body); err != nil {
		return err
	}
	if g.role == roleBookie {
		if body, err = g.expect(kindNext); err != nil {
			return err
		}
		if g.next, err = parseNext(body); err != nil {
			return err
		}
	}
	_ = g.conn.SetReadDeadline(time.Time{})
	return nil
}

func (g *guest) expect(want byte) ([]byte, error) {
	kind, body, err := g.frames.next(g.conn)
	if err == nil && kind != want {
		err = fmt.Errorf("%w: kind %d", errFrame, kind)
	}
	return body, err
}

// register gives a guest its place, and says whether nobody had it before.
func (b *broker) register(g guest, producers []*producerConn) (isNew bool, err error) {
	switch {
	case g.err != nil:
		return false, g.err
	case g.role == roleBookie && g.index < len(b.bookies):
		g.frames.close()
		links := b.bookies[g.index].links
		select {
		case old := <-links: // of a bookie that was killed before its turn came
			b.disowns(old.conn)
		default:
			isNew = true
		}
		links <- bookieLink{g.conn, g.next}
		return isNew, nil
	case g.role == roleConsumer && g.index < len(b.dispatcher.consumers) && b.dispatcher.consumers[g.index] == nil:
		b.dispatcher.consumers[g.index] = newConsumerConn(g.conn, g.frames) // it goes on with the same buffer
		return true, nil
	case g.role == roleProducer && g.index < len(producers) && producers[g.index] == nil:
		producers[g.index] = &producerConn{broker: b, id: g.index, conn: g.conn, frames: g.frames}
		return true, nil
	}
	g.frames.close()
	return false, fmt.Errorf("registering a connection: role %d, index %d is unknown or taken", g.role, g.index)
}
