// Package child runs a workload as a child process and holds the parent's side
// of the conversation that package workload describes.
//
// Every wait is bounded, a child never outlives its parent, and what it wrote
// last to its standard error is part of the error when it fails.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"contend/internal/workload"
)

// DefaultPatience is how long a silent child is waited for: a warm-up counted in
// messages takes seconds, on a slow machine tens of them.
const DefaultPatience = 2 * time.Minute

// Grace periods.
const (
	// exitGrace is what a child gets to exit after its last word, before it is killed.
	exitGrace = 5 * time.Second
	// drainGrace bounds the reading of what an exited child left in its pipes.
	// They do not always end with it: its own children may hold them open.
	drainGrace = time.Second
)

// Options says what to run.
type Options struct {
	Path string    // the executable; this one when empty
	Args []string  // its arguments, without the program's name
	Env  []string  // added to this process's environment
	Name string    // what error messages call it, "handover/batched"
	Log  io.Writer // also receives the child's standard output and error; may be nil
	// Patience bounds the silence before each event, besides a window's own
	// length. DefaultPatience when zero.
	Patience time.Duration
}

// Process is a running workload. It is steered by one goroutine at a time;
// Close may be called from any.
type Process struct {
	*Command
	patience time.Duration
	commands *os.File // parent's end of workload.CommandFD
	events   *os.File // parent's end of workload.EventFD
	lines    chan line

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
	reader    sync.WaitGroup
}

// Start runs the workload. The caller must Close it. The context bounds the
// start only; the calls that follow take their own.
func Start(ctx context.Context, o Options) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the executable to run as a workload: %w", err)
		}
		o.Path = self
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Name == "" {
		o.Name = "workload"
	}
	p := &Process{
		Command:  newCommand(o.Path, o.Args, o.Name, o.Log),
		patience: o.Patience, lines: make(chan line, 4), closing: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), o.Env...)
	if err := p.begin(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	return p, nil
}

// begin starts the process with its ends of the two pipes.
func (p *Process) begin() (err error) {
	var childEvents, childCommands *os.File
	if p.events, childEvents, err = os.Pipe(); err != nil {
		return err
	}
	defer childEvents.Close()
	if childCommands, p.commands, err = os.Pipe(); err != nil {
		return errors.Join(err, p.events.Close())
	}
	defer childCommands.Close()

	// ExtraFiles[0] is descriptor 3, EventFD; the next one 4, CommandFD.
	p.cmd.ExtraFiles = []*os.File{childEvents, childCommands}
	if err := p.start(); err != nil {
		return errors.Join(err, p.events.Close(), p.commands.Close())
	}
	p.reader.Go(p.read)
	p.reader.Go(func() {
		<-p.exited
		p.events.SetReadDeadline(time.Now().Add(drainGrace))
	})
	return nil
}

// send writes one command. A child that does not read cannot hold it up: a
// command is far shorter than a pipe's buffer, and at most one is under way.
func (p *Process) send(c workload.Command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	p.commands.SetWriteDeadline(time.Now().Add(p.patience))
	if _, err := p.commands.Write(append(b, '\n')); err != nil {
		return p.failed("send the command "+c.Command, err)
	}
	return nil
}

// Close ends the child, by force if it still runs, and releases everything. How
// the child ended is no concern of its error.
func (p *Process) Close() error {
	p.closeOnce.Do(func() {
		close(p.closing)
		_ = p.Command.Close()                // never fails
		p.events.SetReadDeadline(time.Now()) // the reader stops, whoever holds the pipe
		p.reader.Wait()
		p.closeErr = errors.Join(p.commands.Close(), p.events.Close())
	})
	return p.closeErr
}

// awaitExit gives the child time to exit by itself, then kills it.
func (p *Process) awaitExit(ctx context.Context, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		if p.exitErr != nil {
			return p.failed("exit", p.exitErr)
		}
		return nil
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		return ctx.Err()
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		return fmt.Errorf("%s did not exit within %v after its last word and was killed", p.name, grace)
	}
}
