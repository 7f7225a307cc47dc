package render

import (
	"math"
	"strconv"
	"strings"
)

// This file is the one place where base units become what people read.

// notCaptured is printed for what a mode of capture cannot see: never 0.
const notCaptured = "not captured"

const minus = "\u2212" // a real minus sign: as wide as the plus

type unit struct {
	name string
	size float64
}

// Ascending; the last one is open-ended.
var (
	timeUnits  = []unit{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	countUnits = []unit{{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}}
)

// unitFor picks the largest unit that leaves at least 1 before the decimal point.
func unitFor(v float64, units []unit) unit {
	v = math.Abs(v)
	best := units[0]
	for _, u := range units[1:] {
		// 999.6 ns would print as "1000 ns": step up where rounding would.
		if v >= u.size*0.9995 {
			best = u
		}
	}
	return best
}

// digits prints three significant digits without an exponent: 8.93, 10.5, 132, 0.012.
func digits(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	a := math.Abs(v)
	var decimals int
	switch {
	case a >= 99.95:
		decimals = 0
	case a >= 9.995:
		decimals = 1
	case a >= 0.9995:
		decimals = 2
	default:
		decimals = min(9, 1-int(math.Floor(math.Log10(a)))) // two significant digits below 1
	}
	s := strconv.FormatFloat(a, 'f', decimals, 64)
	if v < 0 {
		return minus + s
	}
	return s
}

// duration prints nanoseconds: "101 µs".
func duration(ns float64) string {
	u := unitFor(ns, timeUnits)
	return digits(ns/u.size) + " " + u.name
}

// window prints the length of a window, which is mostly a round number: "3 s".
func window(ns float64) string {
	u := unitFor(ns, timeUnits)
	s := digits(ns / u.size)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " " + u.name
}

// durations prints a change in one unit, "101 → 132 µs", unless the sides are
// too far apart to share one.
func durations(a, b float64) string {
	u := unitFor(math.Max(math.Abs(a), math.Abs(b)), timeUnits)
	least := math.Min(math.Abs(a), math.Abs(b))
	if least != 0 && least < u.size/10 && (math.Abs(a) >= 100*least || math.Abs(b) >= 100*least) {
		return duration(a) + " → " + duration(b)
	}
	return digits(a/u.size) + " → " + digits(b/u.size) + " " + u.name
}

// count prints a number of things: "812", "88.1k". Small ones are exact.
func count(v float64) string {
	if math.Abs(v) < 10_000 && v == math.Trunc(v) {
		return strings.Replace(strconv.FormatFloat(v, 'f', 0, 64), "-", minus, 1)
	}
	u := unitFor(v, countUnits)
	return digits(v/u.size) + u.name
}

// exact prints an integer in full; loss is never rounded.
func exact(n int64) string { return strconv.FormatInt(n, 10) }

// average prints goroutines on average, "not captured" for nil. What is there
// but rounds to nothing says so.
func average(v *float64) string {
	switch {
	case v == nil:
		return notCaptured
	case *v == 0:
		return "0"
	case *v < 0.05:
		return "<0.1"
	case *v >= 99.95:
		return strconv.FormatFloat(*v, 'f', 0, 64)
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

// percentNumber prints a share without its sign: "88", "4.2", "<0.1".
func percentNumber(share float64) string {
	p := share * 100
	switch {
	case p == 0:
		return "0"
	case p > 0 && p < 0.05:
		return "<0.1"
	case math.Abs(p) >= 9.95:
		return strings.Replace(strconv.FormatFloat(p, 'f', 0, 64), "-", minus, 1)
	}
	return strings.Replace(strconv.FormatFloat(p, 'f', 1, 64), "-", minus, 1)
}

func percent(share float64) string { return percentNumber(share) + " %" }

// percentOf is percent, or "not captured".
func percentOf(share *float64) string {
	if share == nil {
		return notCaptured
	}
	return percent(*share)
}

// signed prints the relative change a ratio stands for, without the percent
// sign: 1.31 → "+31", 0.901 → "−9.9".
func signed(ratio float64) string {
	p := (ratio - 1) * 100
	s := percentNumber(math.Abs(p) / 100)
	switch {
	case s == "0" || s == "<0.1":
		return s
	case p < -99.5 && ratio > 0: // not all of it: rounded towards less
		return minus + strconv.FormatFloat(min(math.Floor(-p*10)/10, 99.9), 'f', 1, 64)
	case p < 0:
		return minus + s
	}
	return "+" + s
}

// times prints a ratio as a factor: "1.31×".
func times(ratio float64) string { return factor(ratio) + "×" }

func factor(ratio float64) string {
	if ratio >= 0.1 && ratio < 9.995 {
		return strconv.FormatFloat(ratio, 'f', 2, 64)
	}
	return digits(ratio)
}

// probability prints a p-value with two significant digits.
func probability(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'g', 2, 64)
}

// finite reports whether all values are there and are numbers.
func finite(values ...*float64) bool {
	for _, v := range values {
		if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
			return false
		}
	}
	return true
}
