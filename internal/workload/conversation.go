package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxLine bounds one line of the conversation. A result with its batch-size
// histogram is about 2 KiB.
const maxLine = 1 << 20

// A Conversation is one side's view of the two pipes over which a workload is
// steered. Send may be used by several goroutines, the reading half by one.
type Conversation struct {
	in  *bufio.Scanner
	mu  sync.Mutex
	out *json.Encoder
}

// NewConversation reads lines from r and writes lines to w.
func NewConversation(r io.Reader, w io.Writer) *Conversation {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	return &Conversation{in: in, out: json.NewEncoder(w)}
}

// Inherited opens the conversation a recorder left at EventFD and CommandFD.
// It returns nil when the two are not pipes: the workload was started by hand.
//
// Both are marked close-on-exec: a process the workload starts would otherwise
// hold them open, and the recorder would wait for an end of file that never comes.
func Inherited() *Conversation {
	for _, fd := range []int{EventFD, CommandFD} {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			return nil
		}
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFSOCK {
			return nil
		}
	}
	unix.CloseOnExec(EventFD)
	unix.CloseOnExec(CommandFD)
	return NewConversation(os.NewFile(CommandFD, "commands"), os.NewFile(EventFD, "events"))
}

// Send writes v, an Event or a Command, as one line.
func (c *Conversation) Send(v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(v)
}

// NextCommand waits for the next command. The end of the input reads as a
// "stop" with io.EOF.
func (c *Conversation) NextCommand() (Command, error) {
	var cmd Command
	err := c.next(&cmd)
	if errors.Is(err, io.EOF) {
		cmd = Command{Command: CommandStop}
	}
	return cmd, err
}

// NextEvent waits for the next event; io.EOF when the workload has gone. An
// "error" event is returned as an error.
func (c *Conversation) NextEvent() (Event, error) {
	var ev Event
	if err := c.next(&ev); err != nil {
		return Event{}, err
	}
	if ev.Event == EventError {
		return ev, errors.New(ev.Error)
	}
	return ev, nil
}

func (c *Conversation) next(v any) error {
	if !c.in.Scan() {
		if err := c.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := json.Unmarshal(c.in.Bytes(), v); err != nil {
		return fmt.Errorf("malformed line in the workload conversation: %w", err)
	}
	return nil
}
