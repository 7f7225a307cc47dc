package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"contend/internal/recording"

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
	err := c.Next(&cmd)
	if errors.Is(err, io.EOF) {
		cmd = Command{Command: CommandStop}
	}
	return cmd, err
}

// Commands reads the recorder's commands until ctx ends; the end of the input,
// or garbage, reads as a stop. It takes over the reading half.
func (c *Conversation) Commands(ctx context.Context) <-chan Command {
	commands := make(chan Command)
	go func() { // ends with the input or, at the latest, with the process
		for {
			cmd, err := c.NextCommand()
			if err != nil {
				cmd = Command{Command: CommandStop}
			}
			select {
			case commands <- cmd:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return commands
}

// NextEvent waits for the next event; io.EOF when the workload has gone. An
// "error" event is returned as an error.
func (c *Conversation) NextEvent() (Event, error) {
	var ev Event
	if err := c.Next(&ev); err != nil {
		return Event{}, err
	}
	if ev.Event == EventError {
		return ev, errors.New(ev.Error)
	}
	return ev, nil
}

// MeasureOnce is the recorder's half of the simplest conversation: one window,
// then the end. The result is the window's; its Verify also covers all that was
// drained after it.
func (c *Conversation) MeasureOnce(minimum time.Duration) (*recording.WorkloadResult, error) {
	if _, err := c.expect(EventWarm); err != nil {
		return nil, err
	}
	if err := c.Send(Command{Command: CommandWindow, MinNS: int64(minimum)}); err != nil {
		return nil, err
	}
	if _, err := c.expect(EventBegin); err != nil {
		return nil, err
	}
	end, err := c.expect(EventEnd)
	if err != nil {
		return nil, err
	}
	if err := c.Send(Command{Command: CommandStop}); err != nil {
		return nil, err
	}
	final, err := c.expect(EventFinal)
	if err != nil {
		return nil, err
	}
	window, whole := end.Result, final.Result.Verify
	if !whole.OK {
		whole.Reason = strings.Trim(window.Verify.Reason+"; "+whole.Reason, "; ")
		window.Verify = whole
	}
	return window, nil
}

// expect waits for one event; those that end a window carry a result.
func (c *Conversation) expect(event string) (Event, error) {
	ev, err := c.NextEvent()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the workload ended before its %q event", event)
	}
	if err != nil {
		return ev, err
	}
	if ev.Event != event {
		return ev, fmt.Errorf("the workload said %q where %q was due", ev.Event, event)
	}
	if ev.Result == nil && (event == EventEnd || event == EventFinal) {
		return ev, fmt.Errorf("the workload's %q event has no result", event)
	}
	return ev, nil
}

// Next decodes the next line into v; io.EOF at the end of the input.
func (c *Conversation) Next(v any) error {
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
