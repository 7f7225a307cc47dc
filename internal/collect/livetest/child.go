package livetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// dir holds what the tests of a run build, see Main.
var dir string

// Main runs a package's tests, with a folder for what they build.
func Main(m *testing.M) int {
	var err error
	if dir, err = os.MkdirTemp("", "livetest"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	return m.Run()
}

// Dir is the folder of what the tests build.
func Dir() string { return dir }

var builds sync.Map // source and flags → func() (string, error)

// Build builds a program of the package under test, once for each set of flags, and
// returns the executable.
func Build(t testing.TB, source string, flags ...string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(fmt.Sprint(source, flags), sync.OnceValues(func() (string, error) {
		exe := filepath.Join(dir, filepath.Base(source)+strings.ReplaceAll(strings.Join(flags, ""), " ", ""))
		args := append(append([]string{"build", "-o", exe}, flags...), "./"+source)
		out, err := exec.Command("go", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return exe, err
	}))
	exe, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// Child is a running target, which takes lines on its standard input and answers with
// lines on its standard output. It ends with the test.
type Child struct {
	Process *target.Process
	Binary  *symbolize.Binary
	Cmd     *exec.Cmd
	In      io.WriteCloser
	Out     *bufio.Reader
}

// Start starts a target. up returns once its runtime is up.
func Start(t testing.TB, cmd *exec.Cmd, up func(*Child)) *Child {
	t.Helper()
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // gone already in the tests that end it
		_ = cmd.Wait()
	})
	c := &Child{Cmd: cmd, In: in, Out: bufio.NewReader(out)}
	up(c)
	if c.Process, err = target.Find(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if c.Binary, err = symbolize.Open(c.Process.Exe); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Binary.Close() })
	return c
}

// Ask sends a line and returns the answer.
func (c *Child) Ask(t testing.TB, line string) []byte {
	t.Helper()
	if _, err := fmt.Fprintln(c.In, line); err != nil {
		t.Fatal(err)
	}
	answer, err := c.Out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: the target does not answer: %v", line, err)
	}
	return answer
}
