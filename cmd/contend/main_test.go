package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this test binary stand in for contend: in scripts, and where a
// workload starts its other processes.
func TestMain(m *testing.M) {
	testscript.Main(tidy{m}, map[string]func(){
		"contend": func() {
			os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// tidy removes at the end what tests share.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	defer removeBuilt()
	return m.M.Run()
}

// Scripts are acceptance tests: what a person types, what is printed where, and
// the exit code. They need no privilege.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("BANK", bankDir(t))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
		},
	})
}

// bankDir holds recorded pairs: see package trial.
func bankDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../internal/trial/testdata/bank")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// exits runs a command and demands its exit code: exits 2 contend record --pid -1
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%v: exit code %d, want %d", args[1:], code, want)
	}
}
