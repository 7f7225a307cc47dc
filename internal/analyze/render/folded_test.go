package render

import (
	"fmt"
	"strconv"
	"strings"
)

// unfoldName undoes foldedName.
func unfoldName(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		if len(s) < i+4 || s[i+1] != 'x' {
			return "", fmt.Errorf(`folded name: want \xNN at %q`, s[i:])
		}
		c, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
		if err != nil {
			return "", fmt.Errorf("folded name: %w", err)
		}
		b.WriteByte(byte(c))
		s = s[i+4:]
	}
}
