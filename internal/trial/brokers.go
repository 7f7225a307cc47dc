package trial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"contend/internal/recording"
)

// Broker is a real broker with a load, both of testdata/brokers, built from the
// module proxy.
type Broker struct {
	Name    string
	Package string   // of the broker
	Flags   []string // to build it with
	Load    string   // package of its load
	// Serve gives the broker's arguments for three ports of the loopback address: of
	// clients, of its profiles, and one more. Files go to dir.
	Serve func(dir string, ports [3]int) ([]string, error)
	Drive func(port int) []string
	Ready string // what it says once it serves
}

// Brokers are those that contend is held to.
var Brokers = []Broker{
	{
		Name: "nats-server, JetStream", Package: "github.com/nats-io/nats-server/v2", Load: "./natsload", Ready: "Server is ready",
		Serve: func(dir string, ports [3]int) ([]string, error) {
			conf := filepath.Join(dir, "nats.conf")
			text := fmt.Sprintf("listen: 127.0.0.1:%d\nprof_port: %d\nprof_block_rate: 1\njetstream { store_dir: %q }\n", ports[0], ports[1], dir)
			return []string{"-c", conf}, os.WriteFile(conf, []byte(text), 0o644)
		},
		Drive: func(port int) []string {
			return []string{"-url", fmt.Sprintf("nats://127.0.0.1:%d", port), "-jetstream"}
		},
	},
	{
		Name: "nats-server, core", Package: "github.com/nats-io/nats-server/v2", Load: "./natsload", Ready: "Server is ready",
		Serve: func(dir string, ports [3]int) ([]string, error) {
			conf := filepath.Join(dir, "nats.conf")
			text := fmt.Sprintf("listen: 127.0.0.1:%d\nprof_port: %d\nprof_block_rate: 1\n", ports[0], ports[1])
			return []string{"-c", conf}, os.WriteFile(conf, []byte(text), 0o644)
		},
		Drive: func(port int) []string { return []string{"-url", fmt.Sprintf("nats://127.0.0.1:%d", port)} },
	},
	{
		Name: "mochi-mqtt", Package: "./mochi", Load: "./mqttload", Ready: "Server is ready", Serve: profiled(),
		Drive: func(port int) []string { return []string{"-url", fmt.Sprintf("tcp://127.0.0.1:%d", port)} },
	},
	{
		Name: "nsqd", Package: "./nsqd", Load: "./nsqload", Ready: "Server is ready", Serve: profiled(),
		Drive: func(port int) []string { return []string{"-addr", fmt.Sprintf("127.0.0.1:%d", port)} },
	},
	{
		Name: "etcd", Package: "./etcd", Load: "./etcdload", Ready: "Server is ready", Serve: profiled("-peers"),
		Drive: func(port int) []string { return []string{"-addr", fmt.Sprintf("127.0.0.1:%d", port)} },
	},
}

// profiled are the flags of the brokers that testdata/brokers starts itself; more
// are flags that take the third port.
func profiled(more ...string) func(string, [3]int) ([]string, error) {
	return func(_ string, ports [3]int) ([]string, error) {
		args := []string{"-listen", fmt.Sprintf("127.0.0.1:%d", ports[0]), "-pprof", fmt.Sprintf("127.0.0.1:%d", ports[1]), "-block-rate", "1"}
		for _, flag := range more {
			args = append(args, flag, fmt.Sprintf("127.0.0.1:%d", ports[2]))
		}
		return args, nil
	}
}

// RecordBroker builds a broker and its load, runs both, and records the broker for a
// time with every wait and its own block profile at rate 1. It returns the
// recording and what contend's report says.
func (r *Recorder) RecordBroker(ctx context.Context, b Broker, source, scratch string) (*recording.Recording, string, error) {
	dir, err := os.MkdirTemp(scratch, "broker")
	if err != nil {
		return nil, "", err
	}
	broker, load := filepath.Join(dir, "broker"), filepath.Join(dir, "load")
	for exe, pkg := range map[string]string{broker: b.Package, load: b.Load} {
		args := []string{"build", "-o", exe}
		if pkg == b.Package {
			args = append(args, b.Flags...)
		}
		build := exec.CommandContext(ctx, "go", append(args, pkg)...)
		build.Dir = source
		if out, err := build.CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("cannot build %s: %w: %s", pkg, err, out)
		}
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, "", err
		}
	}
	args, err := b.Serve(dir, ports)
	if err != nil {
		return nil, "", err
	}
	server, err := startBroker(ctx, b, broker, args)
	if err != nil {
		return nil, "", err
	}
	defer stopBroker(server)
	driver := exec.CommandContext(ctx, load, append(b.Drive(ports[0]), "-d", (r.Window+10*time.Second).String())...)
	if err := driver.Start(); err != nil {
		return nil, "", err
	}
	defer stopBroker(driver)
	time.Sleep(2 * time.Second) // its connections are made, its stores are warm
	out := filepath.Join(dir, "recording")
	record := exec.CommandContext(ctx, r.Contend, "record", "--pid", fmt.Sprint(server.Process.Pid), "-d", r.Window.String(),
		"--pprof", fmt.Sprintf("http://127.0.0.1:%d/debug/pprof", ports[1]), "--collect", "waits,block", "--waits", "all", "-o", out)
	if said, err := record.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("recording %s: %w: %s", b.Name, err, said)
	}
	report, err := exec.CommandContext(ctx, r.Contend, "report", out, "--profile", recording.Waits).Output()
	if err != nil {
		return nil, "", fmt.Errorf("reporting %s: %w", b.Name, err)
	}
	rec, err := recording.Open(out)
	return rec, string(report), err
}

func startBroker(ctx context.Context, b Broker, exe string, args []string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, exe, args...)
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	last := ""
	for lines := bufio.NewScanner(said); lines.Scan(); last = lines.Text() {
		if strings.Contains(lines.Text(), b.Ready) {
			go func() { _, _ = io.Copy(io.Discard, said) }() // it must not wait for a reader
			return cmd, nil
		}
	}
	stopBroker(cmd)
	return nil, fmt.Errorf("%s ended before it was ready: %s", b.Name, last)
}

// stopBroker ends a process, politely at first.
func stopBroker(cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // its exit status is its own affair
	_ = cmd.Process.Signal(syscall.SIGTERM)     // it may have ended
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		<-done
	}
}

// freePort finds a port of the loopback address that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, errors.Join(err, l.Close())
}
