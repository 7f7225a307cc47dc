package ledger

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// An eventLoop serves the producers pinned to it, as a Netty event loop does:
// one goroutine waits for whichever is readable, publishes what it read, and
// writes the receipts that the ledger executor left.
type eventLoop struct {
	epoll, event int // file descriptors
	conns        map[int32]*loopConn
	buf          []byte
	lockThread   bool // run on a thread of its own

	mu      sync.Mutex
	dirty   []*loopConn // have receipts to write
	stopped bool
	ready   []*loopConn // of flush
}

// A loopConn is one producer on a loop. fd is a duplicate the loop owns.
type loopConn struct {
	*producerConn
	fd     int
	unsent []byte // receipts the socket did not take
}

func newEventLoop() (*eventLoop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("event loop: %w", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("event loop: %w", err)
	}
	l := &eventLoop{epoll: epoll, event: event, conns: make(map[int32]*loopConn)}
	if err := l.watch(unix.EPOLL_CTL_ADD, event, unix.EPOLLIN); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *eventLoop) watch(op, fd int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(l.epoll, op, fd, &ev); err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	return nil
}

// add pins a producer to the loop, before run.
func (l *eventLoop) add(p *producerConn) error {
	raw, err := p.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(f uintptr) {
		// The duplicate leaves the runtime's poller out; it is non-blocking too.
		fd, dupErr = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil || dupErr != nil {
		return fmt.Errorf("event loop: %w", errors.Join(err, dupErr))
	}
	p.conn.Close()
	c := &loopConn{producerConn: p, fd: fd}
	p.schedule = func() { l.schedule(c) }
	l.conns[int32(fd)] = c
	return l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN)
}

// schedule has the loop write a producer's receipts.
func (l *eventLoop) schedule(c *loopConn) {
	l.mu.Lock()
	l.dirty = append(l.dirty, c)
	first := len(l.dirty) == 1
	l.mu.Unlock()
	if first {
		l.wake()
	}
}

func (l *eventLoop) wake() {
	one := [8]byte{0: 1}
	_, _ = unix.Write(l.event, one[:]) // fails only when a wake-up is pending
}

// stop ends run.
func (l *eventLoop) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.wake()
}

// close gives the descriptors back, after run.
func (l *eventLoop) close() {
	for fd, c := range l.conns {
		unix.Close(int(fd))
		c.frames.close()
	}
	unix.Close(l.event)
	unix.Close(l.epoll)
}

// run is the loop's goroutine.
func (l *eventLoop) run() error {
	if l.lockThread {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for _, c := range l.conns {
		// Behind its greeting a producer may have sent more, which was read with it:
		// no event tells of that.
		if err := c.producerConn.handle(); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(l.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("event loop: %w", err)
		}
		for _, ev := range events[:n] {
			if err := l.handle(ev); err != nil {
				return err
			}
		}
		if stopped, err := l.flush(); stopped || err != nil {
			return err
		}
	}
}

func (l *eventLoop) handle(ev unix.EpollEvent) error {
	if int(ev.Fd) == l.event {
		var count [8]byte
		_, _ = unix.Read(l.event, count[:])
		return nil
	}
	c := l.conns[ev.Fd]
	if c == nil {
		return nil // closed earlier in this round
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		if err := l.send(c, nil); err != nil {
			return err
		}
	}
	if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		return l.read(c)
	}
	return nil
}

// read reads once and publishes; what is left makes the descriptor readable again.
func (l *eventLoop) read(c *loopConn) error {
	n, err := unix.Read(c.fd, c.frames.space())
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("reading from producer %d: %w", c.id, err)
	case n == 0: // the producer got all its receipts and left
		delete(l.conns, int32(c.fd))
		c.frames.close()
		return unix.Close(c.fd)
	}
	c.frames.filled(n)
	return c.producerConn.handle()
}

// flush writes the receipts of every producer that has some.
func (l *eventLoop) flush() (stopped bool, err error) {
	l.mu.Lock()
	l.ready, l.dirty = l.dirty, l.ready[:0]
	stopped = l.stopped
	l.mu.Unlock()
	for _, c := range l.ready {
		l.buf, _ = c.takeReceipts(l.buf[:0])
		if err := l.send(c, l.buf); err != nil {
			return stopped, err
		}
	}
	return stopped, nil
}

// send writes frames behind those unsent; what the socket does not take waits
// until it is writable.
func (l *eventLoop) send(c *loopConn, frames []byte) error {
	waiting := len(c.unsent) > 0
	if waiting {
		c.unsent = append(c.unsent, frames...)
		frames = c.unsent
	}
	n, err := unix.Write(c.fd, frames)
	if err == unix.EAGAIN || err == unix.EINTR {
		n, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("writing to producer %d: %w", c.id, err)
	}
	c.unsent = append(c.unsent[:0], frames[n:]...)
	switch blocked := len(c.unsent) > 0; {
	case blocked && !waiting:
		return l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN|unix.EPOLLOUT)
	case !blocked && waiting:
		return l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN)
	}
	return nil
}
