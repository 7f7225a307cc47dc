package child

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shell starts a command line and checks at the test's end that none of its
// group is left.
func shell(t *testing.T, line string) *Command {
	t.Helper()
	c, err := Shell(t.Context(), line, "the broker", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		eventually(t, "the group is gone", func() bool {
			for _, pid := range c.Members() {
				if alive(pid) {
					return false
				}
			}
			return true
		})
	})
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestMembersAreTheGroup(t *testing.T) {
	c := shell(t, "sleep 1000 & sleep 1000; true")
	eventually(t, "three members", func() bool { return len(c.Members()) == 3 })
	if m := c.Members(); m[0] != c.PID() {
		t.Errorf("members %v do not begin with the leader %d", m, c.PID())
	}
}

func TestTerminate(t *testing.T) {
	for line, want := range map[string]string{
		"sleep 1000":                                                   "",
		"sleep 1000; true":                                             "",
		"trap 'exit 0' TERM; sleep 1000 & wait":                        "",
		"trap 'exit 143' TERM; sleep 1000 & wait":                      "",
		"trap 'echo lost 3; exit 4' TERM; sleep 1000 & wait":           "the broker failed (exit status 4); it said: lost 3",
		"trap '' TERM; sleep 1000 & while :; do wait; sleep 0.1; done": "", // until it is killed
	} {
		c := shell(t, line)
		if strings.Contains(line, "&") {
			eventually(t, "its trap is set", func() bool { return len(c.Members()) > 1 })
		}
		err := c.Terminate(t.Context(), time.Second)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestEndedByItself(t *testing.T) {
	c := shell(t, "echo no space left >&2; exit 3")
	<-c.Exited()
	want := "the broker failed (exit status 3); it said: no space left"
	for _, err := range []error{c.Ended(), c.Terminate(t.Context(), patient)} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if c.ExitStatus() != 3 {
		t.Errorf("exit status %d", c.ExitStatus())
	}
}

// A leader's end takes its children with it.
func TestLeaderTakesItsGroup(t *testing.T) {
	c := shell(t, "sleep 1000 & echo $!")
	<-c.Exited()
	pid, err := strconv.Atoi(strings.TrimPrefix(c.Said(), "; it said: "))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its child is gone", func() bool { return !alive(pid) })
}

// TestGroupDiesWithItsParent kills a parent that cannot clean up, and whose
// shell has a child that Pdeathsig does not reach.
func TestGroupDiesWithItsParent(t *testing.T) {
	p := begin(t, "shell-parent", patient)
	warm, err := p.Warm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !alive(warm.PID) {
		t.Fatal("no shell to leave behind")
	}
	group := (&Command{cmd: &exec.Cmd{Process: findProcess(t, warm.PID)}})
	eventually(t, "the shell has a child", func() bool { return len(group.Members()) == 2 })
	members := group.Members()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range members {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

func findProcess(t *testing.T, pid int) *os.Process {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTranscriptIsBounded(t *testing.T) {
	var s Transcript
	var all bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&s, "line %d\n", i)
		fmt.Fprintf(&all, "line %d\n", i)
	}
	got := s.Bytes()
	if len(got) > 4*transcriptPart || !bytes.HasPrefix(got, []byte("line 0\nline 1\n")) || !bytes.HasSuffix(got, []byte("line 99999\n")) {
		t.Errorf("%d bytes, from %.20q to %q", len(got), got, got[len(got)-20:])
	}
	var left int
	if _, after, ok := bytes.Cut(got, []byte("\n[… ")); !ok {
		t.Error("it does not say what was left out")
	} else if _, err := fmt.Sscanf(string(after), "%d", &left); err != nil || len(got)+left < all.Len() {
		t.Errorf("%d kept and %d left out of %d", len(got), left, all.Len())
	}
	var short Transcript
	short.Write([]byte("hello"))
	if string(short.Bytes()) != "hello" {
		t.Errorf("%q", short.Bytes())
	}
}

func FuzzGroupOf(f *testing.F) {
	f.Add([]byte("12 (a) b) S 1 77 77 0"))
	f.Add([]byte("12"))
	f.Add([]byte(") S"))
	f.Fuzz(func(t *testing.T, stat []byte) { groupOf(stat) })
}

func TestShellAfterCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Shell(ctx, "true", "the broker", nil); err == nil {
		t.Error("started after its context had ended")
	}
}
