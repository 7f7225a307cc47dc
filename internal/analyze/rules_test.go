package analyze

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"contend/internal/recording"
)

func TestBuiltinRulesParse(t *testing.T) {
	if _, err := ParseRules(bytes.NewReader(BuiltinYAML())); err != nil {
		t.Fatal(err)
	}
	if rs := BuiltinRules(); len(rs.Idle) == 0 || len(rs.Locks) == 0 {
		t.Fatal("the built-in rules are empty")
	}
}

func TestRulesErrorsNameTheLine(t *testing.T) {
	for in, want := range map[string]string{
		"idle:\n- name: x\n  att: [y]":                              `line 3: unknown key "att"; there are name, class`,
		"lazy:\n- name: x":                                          `line 1: unknown key "lazy"; there are locks, idle`,
		"idle:\n- name: x\n  at:\n  - '('":                          "line 4: error parsing regexp",
		"idle:\n- name: x\n  class: [mutex]":                        `line 3: "mutex" is not a class`,
		"renames:\n- from: x":                                       "line 2: rename 1 needs from and to",
		"application:\n  onyl: [x]":                                 `line 2: unknown key "onyl"; there are include`,
		"idle:\n- at: [x]":                                          "line 2: rule 1 of idle has no name",
		"idle:\n- name: everything":                                 `line 2: rule "everything" matches every wait`,
		"idle:\n- name: x\n  lock: [y]":                             `line 2: rule "x": lock is for locks`,
		"idle:\n- name: ''\n  at: [x]":                              "line 2: a name must be",
		"idle: []\n---\nidle: []":                                   "one YAML document",
		"idle:\n- name: x\n  at: [{a: b}]":                          "line 3: a pattern must be",
		"idle: [":                                                   "line 1",
		"locks:\n- {name: a, at: [b], name: c}":                     "line 2",
		strings.Repeat("# long\n", 1+maxRulesBytes/len("# long\n")): "larger than",
	} {
		if _, err := ParseRules(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", in, err, want)
		}
	}
	if rs, err := ParseRules(strings.NewReader("")); err != nil || rs == nil {
		t.Errorf("an empty file is no rules: %v", err)
	}
}

func parse(t *testing.T, s string) *Rules {
	t.Helper()
	rs, err := ParseRules(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestUserRulesComeFirst(t *testing.T) {
	rules := parse(t, `
locks:
- {name: the queue, at: ['handover\.\(\*Queue'], class: [lock]}
- {name: renamed, lock: ['^old\.lock$']}
idle:
- {name: asking, at: ['^main\.ask$']}
blocked:
- {name: publishing is work, at: ['^main\.publish$'], class: [channel]}
categories:
- {name: hand-over, under: ['handover\.']}
application:
  exclude: ['^contend/internal/handover\.\(\*Queue']
`)
	b := knownWaits()
	b.add("sync.(*Mutex).Lock main.other@1", labels{"class": "lock", "lock": "old.lock"}, 1, 10e6, 0)
	r := mustReport(t, Options{Rules: rules}, waitsRun(b, manifest(1, 0)))
	if r.Locks[0].Name != "the queue" || r.Locks[1].Name != "renamed" {
		t.Errorf("locks: %s, %s", r.Locks[0].Name, r.Locks[1].Name)
	}
	if r.Boundaries[0].Boundary != "contend/internal/handover.(*SingleExecutor).Execute" {
		t.Errorf("excluded from the application, but boundary is %s", r.Boundaries[0].Boundary)
	}
	takes := map[string]RuleTake{}
	for _, k := range r.Rules {
		takes[k.Rule] = k
	}
	if takes["asking"].DelayNS != 500e6 || takes["asking"].Category != "idle" {
		t.Errorf("takes: %+v", r.Rules)
	}
	if takes["publishing is work"].DelayNS != 250e6 || r.Totals.BlockedNS != 1e9+250e6+10e6 {
		t.Errorf("blocked %d, takes %+v", r.Totals.BlockedNS, r.Rules)
	}
	if len(r.Categories) != 1 || r.Categories[0].Name != "hand-over" || r.Categories[0].DelayNS != 1e9 {
		t.Errorf("categories: %+v", r.Categories)
	}
}

// TestOverExclusionIsReported: a rule broad enough to take lock waits says so.
func TestOverExclusionIsReported(t *testing.T) {
	rules := parse(t, "idle:\n- {name: too broad, under: ['^main\\.produce$']}")
	r := mustReport(t, Options{Rules: rules}, waitsRun(knownWaits(), manifest(1, 0)))
	found := false
	for _, k := range r.Rules {
		if k.Rule == "too broad" {
			found = k.OnContendedLock == 1e9
		} else if k.OnContendedLock != 0 {
			t.Errorf("built-in rule %q took lock time", k.Rule)
		}
	}
	if !found {
		t.Errorf("takes: %+v", r.Rules)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), `rule "too broad" took 1s that waited for a lock`) {
		t.Errorf("warnings: %q", r.Warnings)
	}
}

// TestBuiltinPresets classifies stacks without labels, as foreign profiles have them.
func TestBuiltinPresets(t *testing.T) {
	for stack, want := range map[string]string{
		"sync.(*Mutex).Lock main.f":                                                                                          "lock blocked",
		"sync.(*Mutex).Lock sync.(*RWMutex).Lock main.f":                                                                     "lock blocked",
		"runtime.chanrecv1 main.ask":                                                                                         "channel hand-off",
		"runtime.chanrecv1 main.(*pool).worker main.start.gowrap1":                                                           "channel idle",
		"runtime.selectgo github.com/x/y.(*client).writeLoop":                                                                "select idle",
		"sync.(*Mutex).Lock github.com/x/y.(*client).writeLoop":                                                              "lock blocked",
		"runtime.chansend1 main.(*pool).worker":                                                                              "channel back-pressure",
		"runtime.selectgo golang.org/x/sync/semaphore.(*Weighted).Acquire main.f":                                            "select back-pressure",
		"sync.(*WaitGroup).Wait main.main":                                                                                   "join idle",
		"sync.(*WaitGroup).Wait main.fanOut":                                                                                 "join blocked",
		"runtime.gopark sync.runtime_Semacquire sync.(*WaitGroup).Wait main.fanOut":                                          "join blocked",
		"sync.(*Cond).Wait main.f":                                                                                           "cond hand-off",
		"internal/poll.(*pollDesc).wait internal/poll.(*FD).Write os.(*File).Write main.f":                                   "io back-pressure",
		"internal/poll.(*pollDesc).wait internal/poll.(*FD).Writev net.(*conn).writeBuffers main.f":                          "io back-pressure",
		"internal/poll.(*pollDesc).wait internal/poll.(*FD).Accept net.(*TCPListener).Accept main.main":                      "io idle",
		"internal/poll.runtime_Semacquire internal/poll.(*fdMutex).rwlock internal/poll.(*FD).Write os.(*File).Write main.f": "lock blocked",
		"internal/poll.runtime_pollWait internal/poll.(*FD).WaitWrite net.(*netFD).connect main.f":                           "io blocked",
		"runtime.netpollblock internal/poll.runtime_pollWait main.f":                                                         "io blocked",
		"runtime.usleep runtime.lock2 main.f":                                                                                "runtime runtime", // not an idle thread
		"sync.(*Cond).Wait main.take main.workLoop":                                                                          "cond hand-off",   // the wait itself is not the loop
		"sync.(*Cond).Wait contend/internal/workload/ledger.(*backlogGate).admit main.f":                                     "cond back-pressure",
		"runtime.selectgo contend/internal/workload/ledger.(*dispatcher).run":                                                "select idle",
		"runtime.gopark runtime.chanrecv1 contend/internal/workload/ledger.(*outbox).take contend/internal/workload/ledger.(*consumerConn).write": "channel idle",
		"runtime.selectgo os/signal.NotifyContext.func1":                                                                                 "select idle",
		"runtime.selectgo github.com/x/y.(*Server).handleSignals.func1":                                                                  "select idle",
		"runtime.chanrecv1 github.com/x/y.(*Server).WaitForShutdown main.main":                                                           "channel idle",
		"runtime.selectgo main.handleSignalling":                                                                                         "select hand-off",
		"runtime.selectgo github.com/nats-io/nats-server/v2/server.(*client).stalledWait":                                                "select back-pressure",
		"runtime.selectgo github.com/nats-io/nats-server/v2/server.(*Server).startRateLimitLogExpiration.func1":                          "select idle",
		"runtime.chanrecv1 contend/internal/workload/ledger.(*session).start.func1":                                                      "channel idle",
		"runtime.gopark runtime.chanrecv runtime.chanrecv2 github.com/panjf2000/ants/v2.(*goWorker).run.func1":                           "channel idle",
		"sync.(*Cond).Wait github.com/panjf2000/ants/v2.(*poolCommon).retrieveWorker github.com/panjf2000/ants/v2.(*Pool).Submit main.f": "cond back-pressure",
		"runtime.selectgo github.com/Jeffail/tunny.(*workerWrapper).run":                                                                 "select idle",
		"runtime.chanrecv2 github.com/sourcegraph/conc/pool.(*Pool).worker":                                                              "channel idle",
		"runtime.selectgo github.com/sourcegraph/conc/pool.(*Pool).Go main.f":                                                            "select back-pressure",
		"runtime.chansend1 golang.org/x/sync/errgroup.(*Group).Go main.f":                                                                "channel back-pressure",
		"runtime.selectgo github.com/mochi-mqtt/server/v2.(*Server).eventLoop":                                                           "select idle",
		"runtime.selectgo github.com/mochi-mqtt/server/v2.(*Client).WriteLoop":                                                           "select idle",
		"sync.(*RWMutex).Lock github.com/mochi-mqtt/server/v2.(*Client).WriteLoop":                                                       "lock blocked",
		"runtime.selectgo github.com/nsqio/nsq/nsqd.(*Topic).messagePump":                                                                "select idle",
		"runtime.selectgo github.com/nsqio/nsq/nsqd.(*NSQD).queueScanWorker":                                                             "select idle",
		"runtime.selectgo github.com/nsqio/go-diskqueue.(*diskQueue).ioLoop":                                                             "select idle",
		"runtime.selectgo go.etcd.io/raft/v3.(*node).run":                                                                                "select idle",
		"runtime.selectgo go.etcd.io/etcd/server/v3/etcdserver.(*raftNode).start.func1":                                                  "select idle",
		"sync.(*RWMutex).Lock go.etcd.io/etcd/server/v3/etcdserver.(*raftNode).start.func1":                                              "lock blocked",
		"runtime.selectgo go.etcd.io/etcd/server/v3/etcdserver.(*EtcdServer).processInternalRaftRequestOnce":                             "select hand-off",
		"runtime.selectgo go.etcd.io/etcd/server/v3/storage/backend.(*backend).run":                                                      "select idle",
		"runtime.selectgo google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run":                                            "select idle",
		"runtime.selectgo database/sql.(*DB).conn database/sql.(*DB).QueryContext main.f":                                                "select back-pressure",
		"time.Sleep main.f":                      "sleep idle",
		"runtime.gopark runtime.bgsweep":         "runtime idle",
		"runtime.gcStart main.f":                 "runtime runtime",
		"runtime._LostContendedRuntimeLock":      "runtime runtime",
		"runtime.unlock runtime.chansend main.f": "runtime runtime",
		"main.(*t).inlinedReceive main.f":        "unknown blocked",
		"runtime.futex runtime.futexsleep runtime.notesleep runtime.mPark runtime.stopm runtime.findRunnable runtime.schedule": "runtime idle",
		"runtime.futex runtime.futexsleep runtime.lock2 runtime.newobject main.f":                                              "runtime runtime",
		"syscall.Syscall syscall.Fsync internal/poll.(*FD).Fsync os.(*File).Sync main.f":                                       "syscall blocked",
	} {
		r := mustReport(t, Options{}, waitsRun(newWaits().add(stack, nil, 1, 1000, 0), nil))
		got := "unknown"
		for _, v := range []struct {
			name string
			ns   *int64
		}{{"idle", r.Totals.IdleNS}, {"back-pressure", r.Totals.BackPressureNS}, {"hand-off", r.Totals.HandoffNS},
			{"runtime", r.Totals.RuntimeNS}, {"blocked", &r.Totals.BlockedNS}} {
			if v.ns != nil && *v.ns == 1000 {
				got = v.name
			}
		}
		c, err := newCorpus([]Side{{Runs: []Run{waitsRun(newWaits().add(stack, nil, 1, 1000, 0), nil)}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got = c.sides[0].runs[0].rows[0].effectiveClass() + " " + got; got != want {
			t.Errorf("%s: %s, want %s", stack, got, want)
		}
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add(BuiltinYAML())
	f.Add([]byte("locks:\n- name: a\n  at: ['^b']\nidle:\n- name: c\n  class: [io]\n  reason: [IO]"))
	f.Add([]byte("idle: &a\n- *a"))
	f.Add([]byte("application: {only: ['x'], include: [], exclude: ['(']}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := ParseRules(bytes.NewReader(data))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "rules: ") {
				t.Errorf("error does not say what it is about: %v", err)
			}
			return
		}
		if _, err := NewReport(Side{Runs: []Run{waitsRun(knownWaits(), manifest(1, 1))}}, Options{Rules: rules, Profile: recording.Waits}); err != nil {
			t.Errorf("accepted rules break the report: %v", err)
		}
	})
}

// TestDocumentedRules: the example in docs/rules.md is a rules file.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("docs/rules.md has no example")
	}
	if rs := parse(t, example); len(rs.Locks)+len(rs.Idle)+len(rs.Renames) != 3 {
		t.Errorf("%+v", rs)
	}
}
