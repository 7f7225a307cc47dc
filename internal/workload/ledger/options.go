package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"contend/internal/handover"
	"contend/internal/workload"
)

// Arms: how the messages reach the ledger executor.
const (
	Baseline = "baseline" // one task a message, on the mutex queue
	Batched  = "batched"  // messages through a batching executor
	LockFree = "lockfree" // one task a message, on a queue without a lock
	TwoLane  = "twolane"  // the mutex queue, responses and cursor wake-ups first
	TwoLock  = "twolock"  // one task a message, on a queue whose producers and consumer have a mutex each
	EndToEnd = "endtoend" // what arrives together stays together, from the socket to the receipts
)

const name = "handover"

var (
	arms     = []string{Baseline, Batched, LockFree, TwoLane}
	moreArms = []string{TwoLock, EndToEnd}
)

// Info describes the workload to the command line.
var Info = workload.Info{
	Name:    name,
	Summary: "hundreds of producers hand their messages to one ledger executor",
	Arms:    arms,
	More:    moreArms,
	New: func() workload.Settings {
		o := Defaults()
		return &o
	},
	Role: RunRole,
}

// Completion: how often a completed add meets the executor queue.
const (
	Pinned = "pinned" // the response task completes the add
	PrePin = "prepin" // the response task queues a completion task
)

// Options are the settings of one run. Start from Defaults.
type Options struct {
	Arm         string        `json:"arm"`
	Producers   int           `json:"producers"`    // connections that publish
	Consumers   int           `json:"consumers"`    // of the one Key_Shared subscription
	Devices     int           `json:"devices"`      // keys; each has at most one message in flight
	InFlight    int           `json:"in_flight"`    // messages published and not acknowledged, at most
	Burst       int           `json:"burst"`        // a producer writes once it may send this many
	Rate        float64       `json:"rate"`         // messages per second, 0 as fast as possible
	Payload     int           `json:"payload"`      // bytes, header included
	Work        time.Duration `json:"work"`         // CPU time an add keeps the executor busy
	Neighbours  int           `json:"neighbours"`   // processes beside the workload's own, each using a core half of the time
	Loops       int           `json:"loops"`        // event loops serving the producers; 0: a goroutine a connection
	LockThreads bool          `json:"lock_threads"` // the executor and each loop on a thread of its own
	Completion  string        `json:"completion"`   // Pinned or PrePin
	Dedup       bool          `json:"dedup"`        // check producer sequences under a topic-wide lock
	BatchItems  int           `json:"batch_items"`  // batched arm: messages a batch, at most
	BatchBytes  int64         `json:"batch_bytes"`  // batched arm: payload a batch, at most; 0 unlimited
	ReadBatch   int           `json:"read_batch"`   // entries the dispatcher reads at once
	Receive     int           `json:"receive"`      // permits a consumer grants: its receiver queue
	Backlog     int           `json:"backlog"`      // undelivered messages beyond which producers are held
	Sync        string        `json:"sync"`         // bookies: SyncNone, SyncBatch or SyncEach
	Dir         string        `json:"dir"`          // where bookies put segments that nobody keeps; "" the default temp dir
	JournalDir  string        `json:"journal_dir"`  // where bookies keep their journals until the run is verified; "" they do not

	Ensemble    int `json:"ensemble"`     // bookies
	WriteQuorum int `json:"write_quorum"` // bookies that are sent an entry
	AckQuorum   int `json:"ack_quorum"`   // bookies that must have it before it is acknowledged

	Listen  string `json:"listen"`  // be the broker alone, at this address
	Connect string `json:"connect"` // be the load generator alone, of the broker at this address
	Network string `json:"network"` // "unix" or "tcp"
	Seed    uint64 `json:"seed"`    // of the producers' choice of devices

	WarmupMessages int64 `json:"warmup_messages"` // 0: 3 × InFlight
	WindowMessages int64 `json:"window_messages"` // 0: 20 × InFlight

	Profiling workload.Profiling `json:"-"`

	// RoleArgs are the arguments with which this executable, started again,
	// calls RunRole; the role's name is appended.
	RoleArgs []string `json:"-"`
}

// Sync modes: what a bookie does before it answers.
const (
	SyncNone  = "none"  // writes; a killed process loses nothing, a power failure may
	SyncBatch = "batch" // one fdatasync for all that arrived during the last
	SyncEach  = "each"  // one fdatasync an entry
)

// Defaults returns the settings of the documented comparison; the package
// comment says why they are what they are.
func Defaults() Options {
	return Options{
		Arm:        Baseline,
		Producers:  500,
		Consumers:  20,
		Devices:    1_000_000,
		InFlight:   100_000,
		Burst:      32,
		Payload:    128,
		Work:       500 * time.Nanosecond,
		Completion: Pinned,
		Dedup:      true,
		BatchItems: handover.DefaultMaxItems,
		BatchBytes: handover.DefaultMaxWeight,
		ReadBatch:  100,
		Receive:    1000,
		Backlog:    1_000_000,
		Sync:       SyncNone,
		Ensemble:   1, WriteQuorum: 1, AckQuorum: 1,
		Network:  "unix",
		Seed:     0x51c0ffee,
		RoleArgs: []string{"workload-role", name},
	}
}

// SetArm chooses the arm.
func (o *Options) SetArm(arm string) { o.Arm = arm }

// Flags adds a flag for each setting that the command line offers.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.Var(preset{o}, "preset", "settings of a published scenario, max-rate or high-rate; flags after it change them")
	f.IntVar(&o.Consumers, "consumers", o.Consumers, "connections of the subscription")
	f.IntVar(&o.Payload, "payload", o.Payload, "bytes a message, header included")
	f.IntVar(&o.Producers, "producers", o.Producers, "connections that publish")
	f.IntVar(&o.InFlight, "in-flight", o.InFlight, "messages published and not acknowledged, at most")
	f.DurationVar(&o.Work, "work", o.Work, "CPU time each message keeps the executor busy")
	f.IntVar(&o.Loops, "loops", o.Loops, "event loops that serve the producers; 0 for a goroutine a connection")
	f.IntVar(&o.Neighbours, "neighbours", o.Neighbours, "processes beside its own, each using a core half of the time")
	f.StringVar(&o.Sync, "sync", o.Sync, "before a bookie answers: none, batch for an fdatasync a group of entries, each for one an entry")
	f.StringVar(&o.JournalDir, "journal-dir", o.JournalDir, "keep the journals in a folder of this one until they are read back; killed bookies recover from them")
	f.StringVar(&o.Network, "network", o.Network, "of the connections to the broker: unix, or tcp over loopback")
	f.StringVar(&o.Listen, "listen", o.Listen, "be the broker alone, at this TCP address, until a load generator has come and gone")
	f.StringVar(&o.Connect, "connect", o.Connect, "be the load generator alone, of the broker at this TCP address and with its settings")
	f.IntVar(&o.Ensemble, "ensemble", o.Ensemble, "bookies, 1 to 3")
	f.IntVar(&o.WriteQuorum, "write-quorum", o.WriteQuorum, "bookies that are sent an entry")
	f.IntVar(&o.AckQuorum, "ack-quorum", o.AckQuorum, "bookies that must have an entry before it is acknowledged")
	f.StringVar(&o.Completion, "completion", o.Completion, "pinned, or prepin for one more task a message")
	f.Float64Var(&o.Rate, "rate", o.Rate, "messages per second; 0 for as many as possible")
	f.BoolVar(&o.Dedup, "dedup", o.Dedup, "check sequences under a topic-wide lock")
	f.IntVar(&o.BatchItems, "batch-items", o.BatchItems, "messages a batch in the batched arm, at most; 1 is no batching. In endtoend, chains")
	f.Int64Var(&o.BatchBytes, "batch-bytes", o.BatchBytes, "payload a batch, at most; 0 unlimited")
	f.BoolVar(&o.LockThreads, "lock-threads", o.LockThreads, "run the executor and each event loop on a thread of its own")
	f.Uint64Var(&o.Seed, "workload-seed", o.Seed, "seed of the producers' choice of devices")
	f.Int64Var(&o.WarmupMessages, "warmup-messages", o.WarmupMessages, "messages before the first window; 0 for as many as suit")
	f.Int64Var(&o.WindowMessages, "window-messages", o.WindowMessages, "messages in a window, at least; 0 for as many as suit")
	o.Profiling.Flags(f)
}

// Validate reports every setting that is out of range, in one line.
func (o Options) Validate() error {
	var errs []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Sprintf(format, args...))
		}
	}
	oneOf := func(name, value string, values ...string) {
		check(slices.Contains(values, value), "%s %q is not one of %s", name, value, strings.Join(values, ", "))
	}
	between := func(name string, v, low, high int) {
		check(low <= v && v <= high, "%s is %d, must be %d to %d", name, v, low, high)
	}
	oneOf("arm", o.Arm, slices.Concat(arms, moreArms)...)
	check(o.Arm != EndToEnd || o.Completion == Pinned, "arm %s has no %s completion: its groups complete in one task", EndToEnd, PrePin)
	oneOf("completion", o.Completion, Pinned, PrePin)
	oneOf("sync", o.Sync, SyncNone, SyncBatch, SyncEach)
	check(o.Listen == "" || o.Connect == "", "listen and connect are two processes")
	between("ensemble", o.Ensemble, 1, 3)
	between("write quorum", o.WriteQuorum, 1, max(o.Ensemble, 1))
	between("ack quorum", o.AckQuorum, 1, max(o.WriteQuorum, 1))
	oneOf("network", o.Network, "unix", "tcp")
	between("producers", o.Producers, 1, 10_000)
	between("consumers", o.Consumers, 1, 1000)
	between("in flight", o.InFlight, max(o.Producers, 1), 10_000_000)
	between("devices", o.Devices, max(o.InFlight, 1), 100_000_000)
	between("burst", o.Burst, 1, 10_000)
	between("payload", o.Payload, headerSize, maxPayload)
	between("loops", o.Loops, 0, 1024)
	between("neighbours", o.Neighbours, 0, 64)
	between("batch items", o.BatchItems, 1, 1<<20)
	between("read batch", o.ReadBatch, 1, 100_000)
	between("receive", o.Receive, 1, 1_000_000)
	between("backlog", o.Backlog, 1, 100_000_000)
	check(o.BatchBytes >= 0, "batch bytes is %d, must not be negative", o.BatchBytes)
	check(o.Work >= 0 && o.Work <= time.Second, "work is %v, must be 0 to 1s", o.Work)
	check(o.Rate >= 0, "rate is %g, must not be negative", o.Rate)
	check(o.WarmupMessages >= 0 && o.WindowMessages >= 0, "message counts must not be negative")
	check(len(o.RoleArgs) > 0, "no arguments to start the other processes with")
	if len(errs) > 0 {
		return errors.New("handover: " + strings.Join(errs, "; "))
	}
	return nil
}

// warmup and window are how many messages must be acknowledged.
func (o Options) warmup() int64 { return cmp.Or(o.WarmupMessages, 3*int64(o.InFlight)) }
func (o Options) window() int64 { return cmp.Or(o.WindowMessages, 20*int64(o.InFlight)) }

// perProducer is one producer's share of the in-flight bound.
func (o Options) perProducer() int { return o.InFlight / o.Producers }

// batches says that messages go through a batching executor. As in the
// reference, batches of one item are none.
func (o Options) batches() bool {
	return (o.Arm == Batched || o.Arm == EndToEnd) && o.BatchItems > 1
}

// batchTasks is how many tasks a batch takes to hold BatchItems messages. An
// end-to-end task is a chain of a burst or so.
func (o Options) batchTasks() int {
	if o.Arm == EndToEnd {
		return max(2, o.BatchItems/o.Burst)
	}
	return o.BatchItems
}

// saturated says that the load is bounded by what is in flight, not by a rate.
func (o Options) saturated() bool { return o.Rate == 0 }

// Settings are the options as a result carries them.
func (o Options) Settings() map[string]string {
	return map[string]string{
		"producers":    strconv.Itoa(o.Producers),
		"consumers":    strconv.Itoa(o.Consumers),
		"devices":      strconv.Itoa(o.Devices),
		"in_flight":    strconv.Itoa(o.InFlight),
		"burst":        strconv.Itoa(o.Burst),
		"rate":         strconv.FormatFloat(o.Rate, 'g', -1, 64),
		"payload":      strconv.Itoa(o.Payload),
		"work":         o.Work.String(),
		"loops":        strconv.Itoa(o.Loops),
		"neighbours":   strconv.Itoa(o.Neighbours),
		"completion":   o.Completion,
		"dedup":        strconv.FormatBool(o.Dedup),
		"lock_threads": strconv.FormatBool(o.LockThreads),
		"batch_items":  strconv.Itoa(o.BatchItems),
		"batch_bytes":  strconv.FormatInt(o.BatchBytes, 10),
		"read_batch":   strconv.Itoa(o.ReadBatch),
		"receive":      strconv.Itoa(o.Receive),
		"backlog":      strconv.Itoa(o.Backlog),
		"sync":         o.Sync,
		"ensemble":     fmt.Sprintf("%d/%d/%d", o.Ensemble, o.WriteQuorum, o.AckQuorum),
		"journal":      strconv.FormatBool(o.JournalDir != ""),
		"network":      o.Network,
		"seed":         strconv.FormatUint(o.Seed, 10),
		"warmup":       strconv.FormatInt(o.warmup(), 10),
		"window":       strconv.FormatInt(o.window(), 10),
	}
}
