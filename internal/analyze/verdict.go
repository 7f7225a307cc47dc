package analyze

import "contend/internal/recording"

// category is what a wait means for the question "was there work to do".
type category uint8

const (
	catBlocked category = iota
	catIdle
	catBackPressure
	catHandoff
	catRuntime
	catRunning // not a wait: on a CPU, or ready for one
	numCategories
)

// Names of categories as rows and gates use them, and as readers see them.
var (
	categoryKey   = [numCategories]string{"total", "idle", "backpressure", "handoff", "runtime", "running"}
	categoryTitle = [numCategories]string{"blocked", "idle", "back-pressure", "hand-off", "runtime", "running"}
)

// verdict is what the rules say of a wait.
type verdict struct {
	category category
	rule     string // the rule that took it, "" for the definition itself
	lockName string // by a rule
	group    string // by a categories rule
}

// verdictKey is all that a verdict depends on, besides the stack.
type verdictKey struct{ class, wait, lockLabel, state, profile string }

// judged is a verdict remembered with its stack. Big profiles have a hundred
// thousand stacks and a handful of keys, so the keys are shared.
type judged struct {
	key     *verdictKey
	verdict *verdict
}

// ruleSet is the user's and the built-in rules, numbered for matching.
type ruleSet struct {
	patterns   []pattern // the frame patterns of all rules
	locks      []*Rule
	categories []*Rule
	waits      []waitRule
	apps       []Application // the user's first
	renames    []Rename
	renamed    []int64   // how many names each of them changed
	all        []setRule // every rule, the user's first
	known      map[verdict]*verdict
	keys       map[verdictKey]*verdictKey
}

type waitRule struct {
	*Rule
	category category
}

// setRule is a rule and where it comes from.
type setRule struct {
	*Rule
	section string
	builtin bool
}

// newRuleSet puts the user's rules, if any, before the built-in ones.
func newRuleSet(user *Rules) *ruleSet {
	rs := &ruleSet{known: map[verdict]*verdict{}, keys: map[verdictKey]*verdictKey{}}
	for _, src := range []*Rules{user, BuiltinRules()} {
		if src == nil {
			continue
		}
		for _, sec := range src.sections() {
			for i := range sec.rules {
				rs.add(sec.name, sec.rules[i], src != user)
			}
		}
		rs.apps = append(rs.apps, src.Application)
		rs.renames = append(rs.renames, src.Renames...)
		rs.renamed = make([]int64, len(rs.renames))
	}
	return rs
}

func (rs *ruleSet) add(section string, r Rule, builtin bool) {
	number := func(ps []pattern) (set bitset) {
		for _, p := range ps {
			set.add(len(rs.patterns))
			rs.patterns = append(rs.patterns, p)
		}
		return set
	}
	r.at, r.under, r.unless = number(r.At), number(r.Under), number(r.Unless)
	rs.all = append(rs.all, setRule{&r, section, builtin})
	switch section {
	case "locks":
		rs.locks = append(rs.locks, &r)
	case "categories":
		rs.categories = append(rs.categories, &r)
	default:
		rs.waits = append(rs.waits, waitRule{&r, sectionCategory[section]})
	}
}

// sectionCategory is what the sections of a file call a wait.
var sectionCategory = map[string]category{"blocked": catBlocked, "backpressure": catBackPressure, "handoff": catHandoff, "idle": catIdle}

// rename is the name that the rules give to a function or a lock.
func (rs *ruleSet) rename(name string) string {
	for i, r := range rs.renames {
		if r.From.re.MatchString(name) {
			name = r.From.re.ReplaceAllString(name, r.To.s)
			rs.renamed[i]++
		}
	}
	return name
}

// hits is the set of frame patterns that match a function's name.
func (rs *ruleSet) hits(name string) (set bitset) {
	for i := range rs.patterns {
		if rs.patterns[i].re.MatchString(name) {
			set.add(i)
		}
	}
	return set
}

// frameKind lets the rules overrule what counts as application code.
func (rs *ruleSet) frameKind(name, kind string) string {
	if kind == KindMark || kind == KindKernel {
		return kind
	}
	for _, a := range rs.apps {
		switch {
		case matches(a.Exclude, name):
			if kind == KindApp {
				return KindStd
			}
			return kind
		case matches(a.Only, name), matches(a.Include, name):
			return KindApp
		case len(a.Only) > 0 && kind == KindApp:
			return KindStd
		}
	}
	return kind
}

func matches(ps []pattern, s string) bool {
	for _, p := range ps {
		if p.re.MatchString(s) {
			return true
		}
	}
	return false
}

// matches tells whether a rule holds for a wait.
func (r *Rule) matches(s *stack, k verdictKey) bool {
	if len(r.Class) > 0 {
		found := false
		for _, c := range r.Class {
			found = found || string(c) == k.class
		}
		if !found {
			return false
		}
	}
	if len(r.Reason) > 0 && !matches(r.Reason, k.wait) || len(r.Lock) > 0 && !matches(r.Lock, k.lockLabel) {
		return false
	}
	if len(r.at) > 0 {
		at := s.below()
		if s.boundary >= 0 {
			at = s.frames[:s.boundary+1]
		}
		if !anyHits(at, r.at) {
			return false
		}
	}
	return (len(r.under) == 0 || anyHits(s.frames, r.under)) && (len(r.unless) == 0 || !anyHits(s.frames, r.unless))
}

func anyHits(frames []*frame, set bitset) bool {
	for _, f := range frames {
		if f.fn.hits.intersects(set) {
			return true
		}
	}
	return false
}

func (rs *ruleSet) keyOf(profileName string, r *row) verdictKey {
	return verdictKey{r.effectiveClass(), r.wait, r.lockLabel, r.state, profileName}
}

// judge says what a row's wait is. Rules come first; the definitions of the
// words decide the rest: an unmatched channel, cond or select wait is a
// hand-off, the runtime's own waits stand apart, all else is blocked.
func (rs *ruleSet) judge(profileName string, r *row) *verdict {
	k := rs.keyOf(profileName, r)
	for _, j := range r.stack.verdicts {
		if *j.key == k {
			return j.verdict
		}
	}
	var v verdict
	for _, rule := range rs.locks {
		if rule.matches(r.stack, k) {
			v.lockName = rule.Name.s
			break
		}
	}
	v.category, v.rule = rs.category(profileName, r.stack, k)
	if v.category == catBlocked {
		for _, rule := range rs.categories {
			if rule.matches(r.stack, k) {
				v.group = rule.Name.s
				break
			}
		}
	}
	shared := rs.known[v]
	if shared == nil {
		shared = &v
		rs.known[v] = shared
	}
	key := rs.keys[k]
	if key == nil {
		key = &k
		rs.keys[k] = key
	}
	r.stack.verdicts = append(r.stack.verdicts, judged{key, shared})
	return shared
}

func (rs *ruleSet) category(profileName string, s *stack, k verdictKey) (category, string) {
	// A wall-clock sampler sees running goroutines too.
	if profileName == recording.Fgprof && k.class == recording.ClassUnknown && !s.isParked() {
		return catRunning, ""
	}
	if k.state == "preempted" || k.state == "runnable" { // a thread that waits for a CPU only
		return catRunning, ""
	}
	for _, w := range rs.waits {
		if w.matches(s, k) {
			return w.category, w.Name.s
		}
	}
	switch k.class {
	case recording.ClassChannel, recording.ClassSelect, recording.ClassCond:
		return catHandoff, ""
	case recording.ClassRuntime:
		return catRuntime, ""
	}
	return catBlocked, ""
}

// isParked tells whether a stack ends in the scheduler's park.
func (s *stack) isParked() bool {
	return len(s.frames) > 0 && parked[s.frames[0].fn.key]
}
