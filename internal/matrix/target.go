package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// site is what the target says of one of its functions; see testdata/matrix.
type site struct {
	Function string `json:"function"`
	Class    string `json:"class"`
	Waits    int64  `json:"waits"`
	DelayNS  int64  `json:"delay_ns"`
	Own      bool   `json:"own"`
}

// running is a target that waits for commands.
type running struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(ctx context.Context, exe string) (*running, error) {
	t := &running{cmd: exec.CommandContext(ctx, exe)}
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := t.do("hello"); err != nil { // its runtime is up
		t.stop()
		return nil, err
	}
	return t, nil
}

// do has the target carry out a command.
func (t *running) do(command string) ([]site, error) {
	if _, err := fmt.Fprintln(t.in, command); err != nil {
		return nil, err
	}
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: the target does not answer: %w", command, err)
	}
	var a struct {
		Sites []site
		Error string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Sites, nil
}

// stop ends the target.
func (t *running) stop() {
	t.in.Close()
	_ = t.cmd.Process.Kill() // it may have gone by itself
	_ = t.cmd.Wait()
}
