// Package recording reads and writes recordings: what was observed of one
// process in one interval, kept as a folder of plain pprof files and a manifest.
//
// This package is the contract between capture and analysis. It touches files
// only; it knows nothing of live processes and draws no conclusions.
package recording

import "time"

// Schema is the version of the manifest's and the workload result's format.
const Schema = 1

// File names inside a recording's folder.
const (
	ManifestFile = "recording.json" // written last: a folder without it is not a recording
	WorkloadFile = "workload.json"
	Incomplete   = ".INCOMPLETE" // suffix of the folder while it is being written
)

// Profile names. The file of profile NAME is NAME.pb.gz.
const (
	Waits   = "waits"   // goroutine waits, charged to the waiter's stack
	Holders = "holders" // lock time charged to the stacks that held, or woke
	Chains  = "chains"  // lock time charged to what the lock's holder waited for itself meanwhile
	Parks   = "parks"   // goroutine waits other than for locks, of a part of the window: Collector.Parts
	OffCPU  = "offcpu"  // thread off-CPU time
	Mutex   = "mutex"   // the endpoint's mutex profile
	Block   = "block"   // the endpoint's block profile
	Fgprof  = "fgprof"  // the endpoint's wall-clock profile
	CPU     = "cpu"     // the endpoint's CPU profile
)

// Sample label keys of the waits, holders and offcpu profiles.
const (
	LabelWait     = "wait"      // the runtime's wait reason, as it spells it
	LabelClass    = "class"     // see the Class constants
	LabelLock     = "lock"      // the lock's name, where known at capture
	LabelWaker    = "waker"     // site whose release ended the wait: "func file:line"
	LabelState    = "state"     // offcpu: blocked, runnable, preempted
	LabelCharge   = "charge"    // holders: "woke" or "held"
	LabelLockAddr = "lock_addr" // numeric: address of the lock, class lock only
	LabelHolder   = "holder"    // chains: site whose release ended the hold: "func file:line"
	LabelOnAddr   = "on_addr"   // chains, numeric: address of the lock that the holder waited for
	LabelDuration = "duration"  // numeric: power-of-two lower bound of the wait, ns
	LabelMax      = "max"       // numeric: longest wait of the sample, ns
	LabelOpen     = "open"      // "start" or "end": the wait was cut by that edge of the window
	LabelBurst    = "burst"     // numeric: charge "held", sampled in that burst, from 1; none when all of the time was observed
)

// Values of LabelCharge.
const (
	ChargeWoke = "woke" // to the stack that woke the waiter
	ChargeHeld = "held" // to the stack that held the lock
)

// NoReleaseSeen is the frame charged with what no holder is: the lock was not
// released after it, or by code that is not probed, or no burst met it.
const NoReleaseSeen = "[no release seen]"

// Keys of Manifest.Labels in an experiment's recordings.
const (
	ExperimentLabel = "experiment" // its name and seed: equal in all runs of one experiment
	PairLabel       = "pair"       // number of the pair, from 1
	OrderLabel      = "order"      // position among all runs, from 1
)

// Classes of waits, the values of LabelClass.
const (
	ClassLock      = "lock"      // Mutex, RWMutex, fdMutex
	ClassJoin      = "join"      // WaitGroup
	ClassChannel   = "channel"   //
	ClassSelect    = "select"    //
	ClassCond      = "cond"      //
	ClassSemaphore = "semaphore" //
	ClassIO        = "io"        //
	ClassSleep     = "sleep"     //
	ClassSyscall   = "syscall"   //
	ClassRuntime   = "runtime"   // GC assist, stop-the-world, runtime semaphores
	ClassUnknown   = "unknown"   // a wait whose kind could not be told
)

// How a recording came to its end, the values of Manifest.Ended.
const (
	EndedDuration   = "duration"
	EndedInterrupt  = "interrupt"
	EndedTargetExit = "target-exit"
)

// Manifest describes one recording. Times are in nanoseconds; *_mono_ns are
// readings of CLOCK_MONOTONIC on the recording host.
type Manifest struct {
	Schema      int               `json:"schema"`
	Tool        Tool              `json:"tool"`
	Started     time.Time         `json:"started"`
	StartMonoNS int64             `json:"start_mono_ns"`
	DurationNS  int64             `json:"duration_ns"`
	Ended       string            `json:"ended"`
	Target      Target            `json:"target"`
	Collectors  []Collector       `json:"collectors"`
	Skipped     []Skipped         `json:"skipped,omitempty"`
	Host        *HostWindow       `json:"host,omitempty"`
	Operations  *Operations       `json:"operations,omitempty"`
	Overhead    *Overhead         `json:"overhead,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
}

// Tool is the contend that made the recording.
type Tool struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

// Target is the observed process. Its arguments and environment are never kept.
type Target struct {
	Kind      string `json:"kind"` // "pid", "command", "workload" or "endpoint"
	PID       int    `json:"pid,omitempty"`
	Name      string `json:"name"` // the executable's base name, or the workload's name and arm
	BuildID   string `json:"build_id,omitempty"`
	Module    string `json:"module,omitempty"`
	Version   string `json:"version,omitempty"` // of the main module
	Go        string `json:"go,omitempty"`
	StartTime uint64 `json:"start_time,omitempty"` // clock ticks after boot, as /proc/PID/stat has it
	BootID    string `json:"boot_id,omitempty"`
	CPUNS     int64  `json:"cpu_ns,omitempty"` // CPU time the target used in the window
	Workload  string `json:"workload,omitempty"`
	Arm       string `json:"arm,omitempty"`
}

// Collector is one source of a recording, how it was set, and everything it counted.
type Collector struct {
	Name        string            `json:"name"` // "waits", "offcpu", "mutex", …
	Settings    map[string]string `json:"settings,omitempty"`
	StartMonoNS int64             `json:"start_mono_ns"`
	EndMonoNS   int64             `json:"end_mono_ns"`
	Counters    map[string]int64  `json:"counters,omitempty"`
	Overhead    *Overhead         `json:"overhead,omitempty"` // its part of the recorder's
	// Lost names the counters whose values mean that data is missing.
	Lost []string `json:"lost,omitempty"`
	// Parts are the parts of the window in which every wait was captured, not
	// only those for locks; they have a profile of their own. Empty where all or
	// none of the window is such a part.
	Parts []Interval `json:"parts,omitempty"`
	// Thinned says that only parts of the window were observed, at random moments.
	// What the profiles have is scaled up to the window.
	Thinned *Thinned `json:"thinned,omitempty"`
	// Locks has the figures of single lock instances that samples cannot carry.
	Locks []LockTiming `json:"locks,omitempty"`
}

// Thinned is how much of a window was observed, and what that says of the whole.
type Thinned struct {
	Parts      int   `json:"parts"`
	ObservedNS int64 `json:"observed_ns"`
	DelayNS    int64 `json:"delay_ns"` // estimated, of all waits
	LowNS      int64 `json:"low_ns"`   // its 95 % interval
	HighNS     int64 `json:"high_ns"`  // 0 where a single part tells no bound
}

// Interval is a part of a window: readings of CLOCK_MONOTONIC, ns.
type Interval struct {
	StartMonoNS int64 `json:"start_mono_ns"`
	EndMonoNS   int64 `json:"end_mono_ns"`
}

// LockTiming says how long a lock instance had at least one waiter.
type LockTiming struct {
	Addr     uint64 `json:"addr"`
	HeldUpNS int64  `json:"held_up_ns"` // wall time with at least one waiter
}

// Skipped is a collector that was asked for and could not run.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Operations counts what the target did in the window, the denominator of "per message".
type Operations struct {
	Name  string `json:"name"` // singular: "message"
	Count int64  `json:"count"`
}

// Overhead is the recorder's own cost, measured.
type Overhead struct {
	ProbeHits int64 `json:"probe_hits"`
	BPFRunNS  int64 `json:"bpf_run_ns"`
	TrapNS    int64 `json:"trap_ns,omitempty"` // estimated: hits × calibrated cost of one trap
	// Share is (BPFRunNS + TrapNS) ÷ the target's CPU time, or ÷ one core's where that is more.
	Share float64 `json:"share"`
}

// HostWindow is the host's state at both edges of a window.
type HostWindow struct {
	Before *HostState `json:"before,omitempty"`
	After  *HostState `json:"after,omitempty"`
}

// HostState is what could be read of the host at one moment. A nil pointer or
// an empty string is "unknown": nothing is claimed that was not read.
type HostState struct {
	Hostname   string   `json:"hostname,omitempty"`
	Kernel     string   `json:"kernel,omitempty"`
	BootID     string   `json:"boot_id,omitempty"`
	CPUModel   string   `json:"cpu_model,omitempty"`
	CPUs       int      `json:"cpus"`
	Governor   string   `json:"governor,omitempty"`
	Turbo      *bool    `json:"turbo,omitempty"`
	MinMHz     *float64 `json:"min_mhz,omitempty"`
	MaxMHz     *float64 `json:"max_mhz,omitempty"`
	CurrentMHz *float64 `json:"current_mhz,omitempty"`
	Throttles  *int64   `json:"throttles,omitempty"` // core and package throttle counts, summed
	Celsius    *float64 `json:"celsius,omitempty"`   // hottest package sensor
	Steal      *float64 `json:"steal,omitempty"`     // jiffies of steal since boot, in seconds
	// BusyOther is the share of all CPUs that other processes used in the window that ends here.
	BusyOther *float64 `json:"busy_other,omitempty"`
	Load1     *float64 `json:"load1,omitempty"`
	// EffectiveMHz is measured by timing a chain of dependent instructions.
	EffectiveMHz *float64 `json:"effective_mhz,omitempty"`
	// ClockIndex is the same measurement without the assumption about the
	// instructions' latency: dependent operations per microsecond.
	ClockIndex *float64 `json:"clock_index,omitempty"`

	Virtual       *bool    `json:"virtual,omitempty"` // the CPU says that a hypervisor runs it
	ScalingDriver string   `json:"scaling_driver,omitempty"`
	IdleState     string   `json:"idle_state,omitempty"`       // deepest idle state not disabled
	IdleExitUS    *float64 `json:"idle_exit_us,omitempty"`     // its exit latency
	SMT           *bool    `json:"smt,omitempty"`              // sibling threads are active
	NUMABalancing *bool    `json:"numa_balancing,omitempty"`   //
	THP           string   `json:"thp,omitempty"`              // transparent huge pages: always, madvise, never
	Swappiness    *int     `json:"swappiness,omitempty"`       //
	Swap          *bool    `json:"swap,omitempty"`             // a swap area is in use
	Uptime        *float64 `json:"uptime_seconds,omitempty"`   //
	Busy          *float64 `json:"busy_seconds,omitempty"`     // CPU time of all processes since boot
	BusyOwn       *float64 `json:"busy_own_seconds,omitempty"` // of the recorder and its descendants
	StealShare    *float64 `json:"steal_share,omitempty"`      // over the window that ends here; of all CPUs
}
