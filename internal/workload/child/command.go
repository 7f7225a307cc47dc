package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a process of ours with its process group: whatever it starts that
// does not leave the group ends with it, and it ends with us.
type Command struct {
	name  string
	cmd   *exec.Cmd
	tail  tail
	guard *guard // nil where the process cannot leave children behind

	exited  chan struct{} // closed when the process has been waited for
	exitErr error         // its outcome, valid then

	mu     sync.Mutex // held while signalling and while reaping
	reaped bool       // from then on its number may be another's
}

// prelude comes before every command line. The shell begins only when its guard
// is in place: descriptor 3 tells it so, or ends without a word if we do. And it
// stays when its group is asked to end: it waits for the command that it runs, and
// passes its exit status on. A shell that died at once would hide that status, and
// take the command with it before that had its say.
const prelude = "read -r _ <&3 || exit\nexec 3<&-\ntrap 'exit $?' TERM\n"

// Shell runs a command line by /bin/sh. Its standard output and error go to out.
// The caller must Close it.
func Shell(ctx context.Context, line, name string, out io.Writer) (_ *Command, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", name, err)
		}
	}()
	r, begin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer begin.Close()
	defer r.Close()
	c := newCommand("/bin/sh", []string{"-c", prelude + line}, name, out)
	c.cmd.ExtraFiles = []*os.File{r} // descriptor 3
	if err := c.start(); err != nil {
		return nil, err
	}
	g, err := newGuard(c.PID())
	if err == nil {
		_, err = begin.WriteString("\n")
	}
	if err != nil {
		g.dismiss()
		return nil, errors.Join(err, c.Close())
	}
	c.mu.Lock()
	c.guard = g
	reaped := c.reaped
	c.mu.Unlock()
	if reaped { // it was over at once
		g.dismiss()
	}
	return c, nil
}

func newCommand(path string, args []string, name string, out io.Writer) *Command {
	c := &Command{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	w := io.Writer(&c.tail)
	if out != nil {
		w = io.MultiWriter(&c.tail, out)
	}
	c.cmd.Stdout, c.cmd.Stderr = w, w
	c.cmd.WaitDelay = drainGrace
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		// A group of its own: Ctrl-C on the terminal is for the parent to
		// handle, and what the child started can be killed with it.
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL,
	}
	return c
}

// start starts the process, and a goroutine that waits for it.
func (c *Command) start() error {
	started := make(chan error)
	go c.run(started)
	return <-started
}

// run starts the process and waits for it, all on one thread: the kernel sends
// Pdeathsig when the thread that started the child ends, not the process.
func (c *Command) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	awaitExit(c.PID())
	// Whatever is left of the group goes with its leader, before that is reaped:
	// the number of an empty group may soon be another's.
	c.signal(syscall.SIGKILL)
	c.mu.Lock()
	c.guard.dismiss()
	c.exitErr = c.cmd.Wait()
	c.reaped = true
	c.mu.Unlock()
	if errors.Is(c.exitErr, exec.ErrWaitDelay) {
		c.exitErr = nil // it exited well; a process that left the group holds its output
	}
	close(c.exited)
}

// awaitExit returns when a child has exited, and leaves it a zombie.
func awaitExit(pid int) {
	for {
		// Only an interrupted call is worth another one: any other error says that
		// there is no such child.
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// PID returns the process id of the group's leader.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (c *Command) Exited() <-chan struct{} { return c.exited }

// signal sends a signal to the whole group, unless its leader has been reaped.
func (c *Command) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		// ESRCH, nobody left to signal, is as good.
		_ = syscall.Kill(-c.PID(), sig)
	}
}

// Terminate asks the group to end, by SIGTERM, and ends it by force after the grace
// period. It returns an error if the process had failed by itself, or if it
// answered with an exit status of its own that tells of a failure.
func (c *Command) Terminate(ctx context.Context, grace time.Duration) error {
	select {
	case <-c.exited:
		return c.Ended()
	default:
	}
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-ctx.Done():
	case <-timer.C:
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
	switch status := c.cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Signaled() && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGKILL):
		return nil
	case status.ExitStatus() == 128+int(syscall.SIGTERM): // as a shell says it
		return nil
	}
	return c.Ended()
}

// Ended is the error of a process that has ended: nil for exit status 0.
func (c *Command) Ended() error {
	if c.exitErr == nil {
		return nil
	}
	return fmt.Errorf("%s failed (%w)%s", c.name, c.exitErr, c.tail.last())
}

// Said is what the process printed last, as the end of an error message.
func (c *Command) Said() string { return c.tail.last() }

// Close ends the group by force, if it still runs, and waits for it.
func (c *Command) Close() error {
	c.signal(syscall.SIGKILL)
	<-c.exited
	return nil
}

// ExitStatus is the exit status of a process that has ended; -1 where a signal
// ended it.
func (c *Command) ExitStatus() int { return c.cmd.ProcessState.ExitCode() }

// guard outlives this process to end a group that we can no longer end
// ourselves. Pdeathsig reaches the leader only, and a shell's children live on.
type guard struct {
	cmd   *exec.Cmd
	alive *os.File // its read end tells the guard when we are gone
	once  sync.Once
}

func newGuard(group int) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "contend-guard", fmt.Sprint(group))
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what kills our group must not kill it
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &guard{cmd: cmd, alive: w}, nil
}

// dismiss ends the guard without its doing anything.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.once.Do(func() {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait() // killed
		_ = g.alive.Close()
	})
}
