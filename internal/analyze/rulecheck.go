package analyze

import (
	"slices"

	"contend/internal/recording"
)

// RulesCheck says what each rule does with a recording.
type RulesCheck struct {
	Schema  int       `json:"schema"`
	Title   string    `json:"title"`
	Profile string    `json:"profile"`
	WaitNS  int64     `json:"wait_ns"` // of all samples: what the rules were held to
	Samples int64     `json:"samples"`
	Rules   []RuleUse `json:"rules"` // the user's first, in the order in which they are tried
}

// RuleUse is one rule. What it matched but did not take, an earlier rule of its
// section, or of one tried before, took. A pattern of application matches samples
// with such a frame; a rename takes names, which are counted as its samples.
type RuleUse struct {
	Section   string `json:"section"`
	Rule      string `json:"rule"`
	Line      int    `json:"line,omitempty"` // in its file
	Builtin   bool   `json:"builtin"`
	MatchedNS int64  `json:"matched_ns"`
	Matched   int64  `json:"matched_samples"`
	TakenNS   int64  `json:"taken_ns"`
	Taken     int64  `json:"taken_samples"`
	Waits     int64  `json:"taken_waits"`
	OnLockNS  int64  `json:"on_contended_lock_ns"` // of TakenNS, where it is called no contention
}

// CheckRules applies the rules to a side and says which matched how much.
func CheckRules(side Side, o Options) (*RulesCheck, error) {
	if len(side.Runs) == 0 {
		return nil, usagef("%s holds no recording", side.Name)
	}
	c, err := newCorpus([]Side{side}, o)
	if err != nil {
		return nil, err
	}
	rules := c.table.rules
	out := &RulesCheck{Schema: Schema, Title: side.Name, Profile: c.profile}
	uses := map[*Rule]*RuleUse{}
	order := make([]*RuleUse, len(rules.all))
	for i, r := range rules.all {
		order[i] = &RuleUse{Section: r.section, Rule: r.Name.s, Line: r.line(), Builtin: r.builtin}
		uses[r.Rule] = order[i]
	}
	for _, rd := range c.sides[0].runs {
		for _, part := range []struct {
			profile string
			rows    []row
		}{{c.profile, rd.rows}, {recording.Parks, rd.parked}, {recording.OffCPU, rd.threads}} {
			for i := range part.rows {
				r := &part.rows[i]
				out.WaitNS, out.Samples = add(out.WaitNS, r.delay), out.Samples+1
				rules.count(part.profile, r, uses)
			}
		}
	}
	for _, use := range order {
		out.Rules = append(out.Rules, *use)
	}
	for i, r := range rules.renames {
		n := rules.renamed[i]
		out.Rules = append(out.Rules, RuleUse{Section: "renames", Rule: r.From.re.String() + " → " + r.To.s, Line: r.From.line, Matched: n, Taken: n})
	}
	if o.Rules != nil {
		out.Rules = append(out.Rules, c.applicationUses(&o.Rules.Application)...)
	}
	slices.SortStableFunc(out.Rules, func(a, b RuleUse) int { return boolInt(a.Builtin) - boolInt(b.Builtin) })
	return out, nil
}

// applicationUses tells how much each pattern of what is application code matched.
func (c *corpus) applicationUses(a *Application) (uses []RuleUse) {
	for _, list := range []struct {
		name     string
		patterns []pattern
	}{{"include", a.Include}, {"exclude", a.Exclude}, {"only", a.Only}} {
		for _, p := range list.patterns {
			use := RuleUse{Section: "application", Rule: list.name + " " + p.re.String(), Line: p.line}
			hit := map[*function]bool{}
			for _, f := range c.table.funcs {
				hit[f] = p.re.MatchString(f.name)
			}
			c.sides[0].forEach(func(_ *runData, r *row) {
				if slices.ContainsFunc(r.stack.frames, func(f *frame) bool { return hit[f.fn] }) {
					use.MatchedNS, use.Matched = add(use.MatchedNS, r.delay), use.Matched+1
				}
			})
			use.TakenNS, use.Taken = use.MatchedNS, use.Matched
			uses = append(uses, use)
		}
	}
	return uses
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count adds a row to the rules that match it and to those that take it: as judge
// decides, the first of the locks' names, of the kinds of waits, and, of blocked
// waits, of the categories.
func (rs *ruleSet) count(profile string, r *row, uses map[*Rule]*RuleUse) {
	k := rs.keyOf(profile, r)
	took := map[string]bool{}
	for _, rule := range rs.all {
		kind := rule.section
		if kind != "locks" && kind != "categories" {
			kind = "waits"
		}
		if kind == "locks" && k.class != recording.ClassLock && k.class != recording.ClassJoin || !rule.matches(r.stack, k) {
			continue
		}
		use := uses[rule.Rule]
		use.MatchedNS, use.Matched = add(use.MatchedNS, r.delay), use.Matched+1
		if !rs.takes(rule, r) || took[kind] {
			continue
		}
		took[kind] = true
		use.TakenNS, use.Taken = add(use.TakenNS, r.delay), use.Taken+1
		if !r.open {
			use.Waits = add(use.Waits, r.count)
		}
		if kind == "waits" && rule.section != "blocked" && k.class == recording.ClassLock {
			use.OnLockNS = add(use.OnLockNS, r.delay)
		}
	}
}

// takes tells whether a rule that matches a row is the one that judge chose.
func (rs *ruleSet) takes(rule setRule, r *row) bool {
	switch rule.section {
	case "locks":
		return r.verdict.lockName == rule.Name.s
	case "categories":
		return r.verdict.group == rule.Name.s
	}
	return r.verdict.rule == rule.Name.s && r.verdict.category == sectionCategory[rule.section]
}
