package analyze

import (
	"fmt"
	"slices"
)

// chooseDenominator decides what delays are divided by.
func (x *comparison) chooseDenominator() error {
	ops, wall := true, true
	for _, sd := range x.sides {
		for _, rd := range sd.runs {
			_, name, ok := rd.Run.operations()
			ops, wall = ops && ok, wall && rd.wall > 0
			if ok && x.operation == "" {
				x.operation = name
			}
		}
	}
	switch {
	case x.options.Per == PerOperation && !ops:
		return usagef("--per operation: not every recording counted its operations; record with --ops, or compare --per second")
	case x.options.Per == PerSecond && !wall:
		return usagef("--per second: the length of a window is unknown")
	case x.options.Per != "":
		x.per = x.options.Per
	case ops:
		x.per = PerOperation
	case wall:
		x.per = PerSecond
	default:
		x.per = PerRecording
	}
	if x.per != PerOperation {
		x.operation = ""
	}
	return nil
}

// denominator of one run: operations, seconds, or one recording.
func (x *comparison) denominator(rd *runData) float64 {
	switch x.per {
	case PerOperation:
		n, _, _ := rd.Run.operations()
		return float64(n)
	case PerSecond:
		return float64(rd.wall) / 1e9
	}
	return 1
}

// makePairs brings together the runs of each pair, and decides whether the
// pairs can carry a verdict.
func (x *comparison) makePairs() {
	if x.options.Paired {
		byPair := map[int]*[2][]*runData{}
		for i, sd := range x.sides {
			for _, rd := range sd.runs {
				if rd.Pair > 0 {
					if byPair[rd.Pair] == nil {
						byPair[rd.Pair] = &[2][]*runData{}
					}
					byPair[rd.Pair][i] = append(byPair[rd.Pair][i], rd)
				}
			}
		}
		var numbers []int
		for n, p := range byPair {
			if len(p[0]) > 0 && len(p[1]) > 0 {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			x.pairs = append(x.pairs, *byPair[n])
		}
	}
	x.differ = x.whyDiffer()
}

func (x *comparison) whyDiffer() string {
	switch {
	case x.sides[0].processes == 1 || x.sides[1].processes == 1:
		return "one process a side"
	case len(x.pairs) == 0:
		return "the sides were not run in interleaved pairs"
	case x.sharedProcess():
		return "several pairs observed the same process"
	case len(x.pairs) < minPairs:
		return fmt.Sprintf("%d %s; a verdict needs %d", len(x.pairs), plural(len(x.pairs), "pair"), minPairs)
	}
	return ""
}

// sharedProcess tells whether a process is in more than one pair: its windows
// are no replicates.
func (x *comparison) sharedProcess() bool {
	for side := range x.sides {
		pairOf := map[int]int{}
		for i, p := range x.pairs {
			for _, rd := range p[side] {
				if j, ok := pairOf[rd.process]; ok && j != i {
					return true
				}
				pairOf[rd.process] = i
			}
		}
	}
	return false
}
