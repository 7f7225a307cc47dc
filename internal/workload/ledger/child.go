package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"contend/internal/workload"
)

// Roles of the processes the broker starts.
const (
	RoleLoad      = "load"
	RoleBookie    = "bookie"
	RoleNeighbour = "neighbour"
)

// childSetup is the first line on a child's standard input. Later lines are
// commands of the workload conversation; its end means that the broker has gone.
type childSetup struct {
	Options Options `json:"options"`
	Address string  `json:"address"` // where the broker listens, on Options.Network
	Index   int     `json:"index"`   // of a bookie
}

// RunRole is the whole of a process that a broker started with RoleArgs and a
// role's name. in and out are its standard input and output.
func RunRole(role string, in io.Reader, out io.Writer) error {
	// One reader for the setup and the commands: a second one would miss what
	// the first has buffered.
	lines := workload.NewConversation(in, out)
	var setup childSetup
	if err := lines.Next(&setup); err != nil {
		return fmt.Errorf("reading the %s's settings: %w (the broker starts this process, not a user)", role, err)
	}
	var err error
	switch role {
	case RoleBookie:
		err = runBookieRole(setup, lines)
	case RoleLoad:
		err = runLoadRole(setup, lines)
	case RoleNeighbour:
		err = runNeighbour(lines)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		_ = lines.Send(workload.Event{Event: workload.EventError, Error: err.Error()}) // the broker may be gone
	}
	return err
}

func runBookieRole(setup childSetup, lines *workload.Conversation) error {
	j, err := openJournal(setup.Options, setup.Index)
	if err != nil {
		return err
	}
	defer j.close()
	conn, err := dial(setup, roleBookie, setup.Index)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(appendNext(nil, j.next)); err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	go func() { // ends with the process
		_, _ = lines.NextCommand() // only ever the end of the input
		conn.Close()
	}()
	err = runBookie(conn, j)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// dial connects to the broker and says who is calling.
func dial(setup childSetup, role byte, index int) (net.Conn, error) {
	conn, err := net.Dial(setup.Options.Network, setup.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the broker: %w", err)
	}
	if _, err := conn.Write(appendHello(nil, role, index)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to the broker: %w", err)
	}
	return conn, nil
}

// A child is a process of the workload that the broker started.
type child struct {
	role   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *workload.Conversation
	stderr tail
	done   chan struct{} // closed when it has ended
	err    error         // why, once done
}

// startChild starts this executable again in a role. The child ends when its
// standard input ends, and is killed when the broker dies without a word.
func startChild(role string, setup childSetup) (*child, error) {
	args := append(append([]string{}, setup.Options.RoleArgs...), role)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Pdeathsig is sent when the *thread* that forked ends; the runtime
		// ends threads only with goroutines locked to them, and none is here.
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is the broker's to handle
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &child{role: role, cmd: cmd, stdin: stdin, done: make(chan struct{})}
	cmd.Stderr = &c.stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s process: %w", role, err)
	}
	c.lines = workload.NewConversation(stdout, stdin)
	if err := json.NewEncoder(stdin).Encode(setup); err != nil {
		c.kill()
		return nil, fmt.Errorf("starting the %s process: %w", role, err)
	}
	return c, nil
}

// events is the goroutine that passes on the child's events until it ends.
// Wait comes last: it would close the pipe under the reader.
func (c *child) events(ctx context.Context, to chan<- workload.Event) {
	defer close(c.done)
	var failed error
	for {
		ev, err := c.lines.NextEvent()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				failed = err
			}
			break
		}
		select {
		case to <- ev:
		case <-ctx.Done():
		}
	}
	err := c.cmd.Wait()
	switch {
	case failed != nil:
		c.err = fmt.Errorf("the %s process: %w", c.role, failed)
	case err != nil:
		c.err = fmt.Errorf("the %s process ended: %w%s", c.role, err, c.stderr.line())
	}
}

// failure is why a child that should have stayed has ended.
func (c *child) failure() error {
	if c.err != nil {
		return c.err
	}
	return fmt.Errorf("the %s process ended early", c.role)
}

// ended is closed when the child has ended; a child never started never ends.
func (c *child) ended() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// stop ends the child: politely by closing its input, by force after grace.
func (c *child) stop(grace time.Duration) {
	c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(grace):
		c.kill()
		<-c.done
	}
}

func (c *child) kill() { _ = c.cmd.Process.Kill() } // it may be gone already

// tail keeps the end of a child's standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if drop := len(t.buf) - tailSize; drop > 0 {
		t.buf = append(t.buf[:0], t.buf[drop:]...)
	}
	return len(p), nil
}

// line is the first line kept, as the end of an error message.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, _, _ := bytes.Cut(bytes.TrimSpace(t.buf), []byte("\n"))
	if len(first) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(string(first), "?")
}
