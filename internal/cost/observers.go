package cost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"contend/internal/collect/symbolize"
)

// errMissing is the cause when an observer is not installed here.
var errMissing = errors.New("not installed")

// observer can be started on a target. What it returns stops it.
type observer struct {
	name  string
	start func(context.Context) (stop func() error, err error)
}

// attachTime is how long observers that do not say when they are ready are given.
const attachTime = 1500 * time.Millisecond

// settleTime is how long contend looks at every wait before it keeps to its bound.
const settleTime = 2500 * time.Millisecond

func (b *Bench) observers(exe string, t *target) []observer {
	record := func(args ...string) func(context.Context) (func() error, error) {
		return func(ctx context.Context) (func() error, error) {
			out, ready := filepath.Join(b.Dir, "recording"), filepath.Join(b.Dir, "ready")
			if err := os.RemoveAll(ready); err != nil {
				return nil, err
			}
			args := append([]string{"record", "--pid", t.pid(), "-o", out, "--force", "--ready-file", ready, "-d", "1h"}, args...)
			return started(ctx, exec.CommandContext(ctx, b.Contend, args...), func(*bufio.Reader) error { return appears(ready) })
		}
	}
	inside := func(profile string) func(context.Context) (func() error, error) {
		return func(context.Context) (func() error, error) {
			_, err := t.do(profile + " on")
			return func() error {
				_, err := t.do(profile + " off")
				return err
			}, err
		}
	}
	return []observer{
		{"contend record --waits locks --collect waits --holders off", record("--waits", "locks", "--collect", "waits", "--holders", "off")},
		{"contend record --waits locks --collect waits", record("--waits", "locks", "--collect", "waits")},
		{"contend record", func(ctx context.Context) (func() error, error) {
			stop, err := record()(ctx)
			time.Sleep(settleTime)
			return stop, err
		}},
		{"bpftrace, the same job", func(ctx context.Context) (func() error, error) {
			return bpftrace(ctx, exe, t)
		}},
		{"offcputime (thread switches)", func(ctx context.Context) (func() error, error) {
			path, err := exec.LookPath("offcputime")
			if err != nil {
				return nil, fmt.Errorf("%w: libbpf-tools", errMissing)
			}
			return started(ctx, exec.CommandContext(ctx, path, "-p", t.pid(), "3600"), func(*bufio.Reader) error {
				time.Sleep(attachTime)
				return nil
			})
		}},
		{"mutex profile, fraction 1", inside("mutex")},
		{"block profile, rate 1", inside("block")},
		{"execution trace", inside("trace")},
	}
}

// started starts a command and waits until it is ready.
func started(ctx context.Context, cmd *exec.Cmd, ready func(*bufio.Reader) error) (func() error, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	read := bufio.NewReader(out)
	stop := func() error {
		if err := cmd.Process.Signal(unix.SIGINT); err != nil {
			return err
		}
		if _, err := read.WriteTo(io.Discard); err != nil {
			return err
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) && ctx.Err() == nil {
			return nil // interrupted, as it was asked to be
		}
		return err
	}
	if err := ready(read); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// appears waits for a file, for ten seconds at most.
func appears(path string) error {
	for range 1000 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s never appeared", path)
}

// script is contend's job in bpftrace: who waited how long for whom, by the stacks of
// both, with a histogram of the lengths. Its probes sit at the functions' first instructions:
// distributions build bpftrace without the means to place them elsewhere.
const script = `
uprobe:%[1]s:%[2]d /pid == %[4]s/ { @at[reg("r14")] = nsecs; @by[reg("r14")] = ustack(64); }
uprobe:%[1]s:%[3]d /pid == %[4]s/ {
	$g = *(uint64 *)uptr(reg("ax"));
	if (@at[$g]) {
		$d = nsecs - @at[$g];
		@waits[@by[$g], ustack(64)] = stats($d);
		@lengths = hist($d);
		delete(@at[$g]);
	}
}
BEGIN { printf("ready\n"); }
`

func bpftrace(ctx context.Context, exe string, t *target) (func() error, error) {
	path, err := exec.LookPath("bpftrace")
	if err != nil {
		return nil, fmt.Errorf("%w: bpftrace", errMissing)
	}
	b, err := symbolize.Open(exe)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	queue, err := b.ProbePoint("runtime.(*semaRoot).queue")
	if err != nil {
		return nil, err
	}
	ready, err := b.ProbePoint("runtime.readyWithTime")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(script, exe, queue.Func.Entry, ready.Func.Entry, t.pid())
	cmd := exec.CommandContext(ctx, path, "--unsafe", "-e", text)
	cmd.Env = append(os.Environ(), "BPFTRACE_MAP_KEYS_MAX=65536")
	return started(ctx, cmd, func(r *bufio.Reader) error {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return fmt.Errorf("bpftrace ended before it was ready: %w", err)
			}
			if strings.HasPrefix(line, "ready") {
				return nil
			}
		}
	})
}
