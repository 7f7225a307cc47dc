// Package analyze turns recordings into answers: which lock, who waited, who
// woke or held, how much, and whether two recordings really differ.
//
// It is pure: it reads profiles and manifests already in memory, touches no
// live system and prints nothing.
package analyze

import "contend/internal/recording"

// Report is the analysis of one side: a recording, or the merged recordings of
// a series. Durations are nanoseconds; a nil pointer is "not captured".
type Report struct {
	Schema    int                 `json:"schema"`
	Title     string              `json:"title"`
	Recording *recording.Manifest `json:"recording,omitempty"` // of the first run, for a series
	Runs      int                 `json:"runs"`
	Profile   string              `json:"profile"` // the profile the tables are made of
	Mode      string              `json:"mode"`    // what that profile can see: "locks", "all", …
	// Uncounted says that the profile has no number of waits: every count is 0.
	Uncounted  bool       `json:"uncounted,omitempty"`
	Totals     Totals     `json:"totals"`
	Goroutines Goroutines `json:"goroutines"`
	HandOvers  *HandOvers `json:"hand_overs,omitempty"`
	Locks      []Lock     `json:"locks"`
	Boundaries []Boundary `json:"boundaries"`
	Roots      []Root     `json:"roots"`
	Chains     []Chain    `json:"chains,omitempty"` // of locks whose holders waited for others
	Functions  []Root     `json:"functions,omitempty"`
	Wakers     []Root     `json:"wakers,omitempty"`     // with Options.By waker: lock time by the site that ended it
	Categories []Root     `json:"categories,omitempty"` // blocked time by the rules' categories
	Omitted    []Omitted  `json:"omitted,omitempty"`    // what Options.Limit cut from the tables
	Rules      []RuleTake `json:"rules,omitempty"`
	Holding    *Holding   `json:"holding,omitempty"` // how holders were observed; nil: only wakers were
	// Elsewhere is where goroutines wait that is neither blocked nor idle:
	// back-pressure and hand-off. Idle is where they, or threads, wait for work.
	Elsewhere  []Elsewhere  `json:"elsewhere,omitempty"`
	Idle       []Elsewhere  `json:"idle,omitempty"`
	HandedOver []HandedOver `json:"handed_over,omitempty"`
	// Parts says for how long waits other than for locks were captured, where
	// that is not all of the window. Of them are Elsewhere, the rules other than
	// for locks, and their averages in Goroutines; they are not in the totals.
	Parts    *Parts                    `json:"parts,omitempty"`
	Workload *recording.WorkloadResult `json:"workload,omitempty"`
	Flames   []Flame                   `json:"-"`
	Lost     map[string]int64          `json:"lost"` // "collector.counter" → count, non-zero ones only
	Warnings []string                  `json:"warnings"`
}

// Totals are sums over the window.
type Totals struct {
	WallNS         int64  `json:"wall_ns"` // summed over runs
	WaitNS         int64  `json:"wait_ns"`
	IdleNS         *int64 `json:"idle_ns"`
	BackPressureNS *int64 `json:"backpressure_ns"`
	HandoffNS      *int64 `json:"handoff_ns"`
	RuntimeNS      *int64 `json:"runtime_ns"`
	BlockedNS      int64  `json:"blocked_ns"`
	BlockedAppNS   int64  `json:"blocked_app_ns"` // blocked, with an application frame in the stack
	LockNS         int64  `json:"lock_ns"`        // the part of blocked that is class lock
	RunQueueNS     int64  `json:"runqueue_ns"`
	Contentions    int64  `json:"contentions"`
	OpenWaits      int64  `json:"open_waits"` // cut by an edge of the window
	OpenNS         int64  `json:"open_ns"`    // their part of WaitNS: the time inside the window
	Operations     *int64 `json:"operations,omitempty"`
}

// Goroutines says how many were in each state on average: time ÷ wall.
type Goroutines struct {
	Running      *float64 `json:"running"`
	WaitingCPU   *float64 `json:"waiting_cpu"`
	Lock         *float64 `json:"lock"`
	BackPressure *float64 `json:"backpressure"`
	Handoff      *float64 `json:"handoff"`
	Runtime      *float64 `json:"runtime"`
	Idle         *float64 `json:"idle"`
}

// Lock is one row of the lock table: a class of lock instances.
type Lock struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"` // mutex, rwmutex, fdmutex, waitgroup, …, unknown
	Class        string   `json:"class"`
	DelayNS      int64    `json:"delay_ns"`
	Contentions  int64    `json:"contentions"`
	Share        float64  `json:"share"` // of BlockedAppNS; shown, never tested
	WaitingAvg   float64  `json:"waiting_avg"`
	HeldUpShare  *float64 `json:"held_up_share"`          // wall time with at least one waiter ÷ wall
	HeldUpNote   string   `json:"held_up_note,omitempty"` // how the shares of several instances were combined
	Ceiling      *float64 `json:"ceiling,omitempty"`      // 1 ÷ HeldUpShare
	DelayPerOpNS *float64 `json:"delay_per_op_ns,omitempty"`
	RunQueueNS   int64    `json:"runqueue_ns"`
	Instances    int      `json:"instances"` // the most that one process had
	Spread       *Spread  `json:"spread,omitempty"`
	MeanNS       float64  `json:"mean_ns"`
	P50NS        int64    `json:"p50_ns"` // lower bounds, from power-of-two buckets
	P99NS        int64    `json:"p99_ns"`
	MaxNS        int64    `json:"max_ns"`
	OpenWaits    int64    `json:"open_waits"` // not in Contentions, nor in the mean and the percentiles
	OpenNS       int64    `json:"open_ns"`    // in DelayNS: their time inside the window
	// UnfinishedWaits are the open waits that went on at the end of the window;
	// UnfinishedMaxNS is a lower bound of the longest, time before the window
	// included where the target's runtime tells.
	UnfinishedWaits int64    `json:"unfinished_waits,omitempty"`
	UnfinishedMaxNS int64    `json:"unfinished_max_ns,omitempty"`
	Waiters         []Site   `json:"waiters"`
	Wakers          []Site   `json:"wakers"`
	Holders         []Holder `json:"holders,omitempty"`
	// HolderWaits are what the holders waited for meanwhile, the most first;
	// HeldInIO is the share of the lock's delay in which that was I/O, nil where
	// it was not captured.
	HolderWaits []HolderWait `json:"holder_waits,omitempty"`
	HeldInIO    *float64     `json:"held_in_io,omitempty"`
	// Pairs join the two lists: who waited, and who ended those waits.
	Pairs []WaitPair `json:"pairs,omitempty"`
	// TopInstances are the instances with the most delay, of all processes.
	TopInstances []LockInstance `json:"top_instances,omitempty"`
	// Histogram: power-of-two lower bound, ns → waits.
	Histogram map[int64]int64 `json:"histogram,omitempty"`
}

// Site is a place in the code: "func file:line".
type Site struct {
	Site        string  `json:"site"`
	DelayNS     int64   `json:"delay_ns"`
	Contentions int64   `json:"contentions"`
	Share       float64 `json:"share"` // of the lock's delay
}

// Holder is a site that held the lock while others waited, with a 95 % interval of
// its share of the lock's waiting time.
type Holder struct {
	Site  string  `json:"site"`
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Boundary is blocked time by deepest application frame × the frame below it.
type Boundary struct {
	Boundary    string  `json:"boundary"`
	Blocker     string  `json:"blocker"`
	Caller      string  `json:"caller"` // the application frame above the boundary
	Class       string  `json:"class"`
	DelayNS     int64   `json:"delay_ns"`
	Contentions int64   `json:"contentions"`
	Share       float64 `json:"share"`
}

// Elsewhere is back-pressure, hand-off or idle time by boundary.
type Elsewhere struct {
	Category    string  `json:"category"`
	Rule        string  `json:"rule,omitempty"` // of idle time: that called it so
	Boundary    string  `json:"boundary"`
	Blocker     string  `json:"blocker"`
	Class       string  `json:"class"`
	DelayNS     int64   `json:"delay_ns"`
	Contentions int64   `json:"contentions"`
	WaitingAvg  float64 `json:"waiting_avg"`
}

// Parts are the parts of the windows in which every wait was captured, and the
// waits other than for locks in them.
type Parts struct {
	WallNS         int64 `json:"wall_ns"` // summed over runs
	IdleNS         int64 `json:"idle_ns"`
	BackPressureNS int64 `json:"backpressure_ns"`
	HandoffNS      int64 `json:"handoff_ns"`
	RuntimeNS      int64 `json:"runtime_ns"`
	BlockedNS      int64 `json:"blocked_ns"`
	Contentions    int64 `json:"contentions"`
}

// Root is blocked time by first application frame (or, in Functions, by any application frame).
type Root struct {
	Name        string  `json:"name"`
	DelayNS     int64   `json:"delay_ns"`
	Contentions int64   `json:"contentions"`
	Share       float64 `json:"share"`
}

// Omitted is what a limit cut from the end of a table.
type Omitted struct {
	Table   string `json:"table"`
	Rows    int    `json:"rows"`
	DelayNS int64  `json:"delay_ns"`
}

// RuleTake says how much one rule took out of the blocked time.
type RuleTake struct {
	Rule        string `json:"rule"`
	Category    string `json:"category"` // idle, back-pressure, hand-off
	DelayNS     int64  `json:"delay_ns"`
	Contentions int64  `json:"contentions"`
	// OnContendedLock is the part that sat on a lock of the lock table: the over-exclusion check.
	OnContendedLock int64 `json:"on_contended_lock_ns"`
}

// Flame is one flame graph, ready to draw.
type Flame struct {
	Name  string // "waiters", "wakers", "off-CPU", …
	Title string
	Unit  string // "ns", or "ns/op" in a diff by operation
	Sides int    // 1, or 2 for a differential graph
	Root  *Node
}

// Node is a box of a flame graph. Children are sorted by name; a node's value
// is its own plus its children's, and Values[1] is zero where Sides is 1.
type Node struct {
	Name     string
	Kind     string // one of the Kind constants
	Values   [2]float64
	Children []*Node
}
