package main

import (
	"fmt"
	"strconv"
	"strings"
)

// percent is a flag's share, written "2%".
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(100*float64(*p), 'g', 4, 64) + "%" }

func (p *percent) Set(s string) error {
	number, ok := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v > 0 && v <= 100) {
		return fmt.Errorf("%q is no percentage above 0, like 2%%", s)
	}
	*p = percent(v / 100)
	return nil
}

func (p *percent) Type() string { return "percent" }
