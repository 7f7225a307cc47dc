package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Alive reports whether the process still runs: the same one, not another that
// was given its PID.
func (p *Process) Alive() bool {
	st, err := readProc(p.PID, "stat", parseStat)
	return err == nil && !st.exited() && st.startTicks == p.StartTime
}

// Stopped reports whether all of the process is stopped, by a signal or by whoever
// traces it.
func (p *Process) Stopped() bool {
	st, err := readProc(p.PID, "stat", parseStat)
	return err == nil && st.startTicks == p.StartTime && (st.state == 'T' || st.state == 't')
}

// CPUTime returns the user and system time all threads of the process have used
// so far, those that ended included, in nanoseconds as the scheduler counts them.
func (p *Process) CPUTime() (time.Duration, error) {
	// clock_getcpuclockid(3): the complement of the PID over a three-bit kind.
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID<<3|cpuClockSched), &ts); err != nil {
		if errors.Is(err, unix.EINVAL) { // no process has the PID
			err = unix.ESRCH
		}
		return 0, explain(p.PID, err)
	}
	if !p.Alive() {
		return 0, fmt.Errorf("process %d: %w", p.PID, ErrExited)
	}
	return time.Duration(ts.Nano()), nil
}

// ReadMemory fills buf from the process's memory.
func (p *Process) ReadMemory(addr uint64, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(p.PID, local, remote, 0)
	if err != nil {
		return explain(p.PID, fmt.Errorf("reading %d bytes at %#x: %w", len(buf), addr, err))
	}
	if n != len(buf) {
		return fmt.Errorf("process %d: only %d of %d bytes at %#x are readable", p.PID, n, len(buf), addr)
	}
	return nil
}

// Done returns a channel that is closed when the process exits. The goroutine
// behind it ends with ctx, without closing the channel.
func (p *Process) Done(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil || !p.Alive() { // exited, or Linux before 5.10
		if err == nil {
			unix.Close(fd)
		}
		go p.poll(ctx, done)
		return done
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	go func() {
		defer file.Close()
		stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(0, 1)) })
		defer stop()
		if err := waitReadable(file); err == nil {
			close(done)
		} else if ctx.Err() == nil {
			p.poll(ctx, done)
		}
	}()
	return done
}

// waitReadable parks the goroutine until a pidfd tells that its process exited,
// or until the file's read deadline.
func waitReadable(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(events, 0)
		return err == nil && n == 1
	})
}

// poll does without a pidfd.
func (p *Process) poll(ctx context.Context, done chan<- struct{}) {
	const often = 100 * time.Millisecond // a recording is whole to about this
	tick := time.NewTicker(often)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	close(done)
}
