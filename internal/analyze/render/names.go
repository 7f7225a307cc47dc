package render

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes every byte of a foreign name visible and every result valid
// UTF-8 that XML can carry: controls and invalid bytes become \x1b or \n, other
// unseen characters \u202e. Unicode has pictures for controls, but few fonts do.
// It is not reversible; writeFolded, which must be, has its own escaping.
func Clean(s string) string { return clean(s) }

func clean(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// hidden reports characters a reader could not see or that would rearrange the
// text around them: controls, bidirectional and zero-width marks, line and
// paragraph separators, and code points XML 1.0 forbids.
func hidden(r rune) bool {
	switch {
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		return true
	case r == 0xfffe, r == 0xffff, unicode.Is(unicode.Noncharacter_Code_Point, r):
		return true
	case unicode.Is(unicode.Variation_Selector, r), r == 0x00a0, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0:
		return true // blank or shapeless
	}
	return false
}

// short drops the directory part of an import path and the inside of long type
// arguments: "github.com/a/b/server.(*stream).mu" → "server.(*stream).mu". Free
// text, as rules may give a lock, is left alone.
func short(name string) string {
	name = shortTypeArguments(clean(name))
	head := name
	if i := strings.IndexAny(name, "([ "); i >= 0 {
		head = name[:i]
	}
	if i := strings.LastIndexByte(head, '/'); i >= 0 && strings.Contains(head[i:], ".") {
		return name[i+1:]
	}
	return name
}

// longTypeArguments is the length beyond which type arguments hide the function they belong to.
const longTypeArguments = 24

func shortTypeArguments(name string) string {
	open := strings.IndexByte(name, '[')
	end := strings.LastIndexByte(name, ']')
	// A leading bracket is a mark such as "[stack lost]".
	if open <= 0 || end-open <= longTypeArguments {
		return name
	}
	return name[:open] + "[...]" + name[end+1:]
}

// splitSite cuts "func file:line" into a short function and a short place.
func splitSite(site string) (function, place string) {
	i := strings.LastIndexByte(site, ' ')
	if i < 0 || !strings.Contains(site[i:], ":") {
		return short(site), ""
	}
	return short(site[:i]), path.Base(clean(site[i+1:]))
}

// shortSite is splitSite in one string.
func shortSite(site string) string {
	function, place := splitSite(site)
	if place == "" {
		return function
	}
	return function + "  " + place
}

// fit shortens s to at most n characters, losing the middle: both the package
// and the method tell names apart.
func fit(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 2 {
		return "…"
	}
	r := []rune(s)
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// markdownName writes a name as code. An ordinary name is a plain code span. One
// with characters that end a span or a table cell, or that a careless reader
// might take for a tag, becomes <code> with numeric
// entities, which Markdown never reads as markup.
func markdownName(name string) string {
	name = clean(name)
	if name == "" {
		return ""
	}
	if !strings.ContainsAny(name, "`|\\<") && strings.TrimSpace(name) == name {
		return "`" + name + "`"
	}
	return "<code>" + markdownText(name) + "</code>"
}

// markdownText writes running text: what Markdown or HTML could read as markup
// becomes a numeric entity.
func markdownText(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		if strings.ContainsRune("`|\\*_<>&[]#~$@!", r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// csvName is a name as a CSV cell. A leading character that spreadsheets take
// for a formula gets an apostrophe, which they take for "text".
func csvName(name string) string {
	name = clean(name)
	if name != "" && strings.ContainsRune("=+-@", rune(name[0])) {
		return "'" + name
	}
	return name
}
