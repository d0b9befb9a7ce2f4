package health

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// hidden stands for what may be a secret: that it is set is kept.
const hidden = "(hidden)"

// maxMasked bounds how many bytes of a value are masked before maxText of them are
// kept, so that no address is cut inside its password.
const maxMasked = 16 << 10

// hide returns the value of a setting as it may be kept and shown. If the name is
// that of a secret, all of the value is hidden, otherwise the secrets in it. The
// result is one line of bounded length. Every value passes hide on its way into a
// fingerprint. Hiding twice changes nothing.
func hide(name, value string) string {
	switch value {
	case "", "null", "true", "false", unset:
		return value
	}
	switch nameOf(name) {
	case secretName:
		return hidden
	case keyName:
		if !countOrSwitch(value) {
			return hidden
		}
	}
	return tidy(mask(value)) // in this order: a cut address would not be masked
}

// hideAll hides the secrets in settings that were handed in.
func hideAll(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, v := range in {
		out[name] = hide(name, v)
	}
	return out
}

// countOrSwitch reports whether a value is a number or a boolean, such as a count
// of tokens, and so no secret.
func countOrSwitch(s string) bool {
	if _, err := strconv.ParseBool(s); err == nil {
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && len(s) <= 12
}

// A naming is what the name of a setting says about its value.
type naming int

const (
	plainName  naming = iota
	keyName           // a secret, unless it is a number
	secretName        // a secret
)

var (
	// secretParts make a name that of a secret wherever they stand in it.
	secretParts = []string{"password", "passwd", "passphrase", "secret", "credential", "apikey", "authtoken",
		"accesstoken", "authorization", "bearer", "cookie", "privatekey", "accesskey"}

	// secretWords make a name that of a secret if they are a word of it.
	secretWords = []string{"pass", "pw", "pwd", "pat", "pats", "jwt", "auth", "dsn"}

	// modelWords before the word token make it a token of the model's vocabulary.
	modelWords = []string{"bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "special",
		"added", "think", "next"}
)

// nameOf judges a dotted name. In all parts it looks for secretParts and
// secretWords, so that all settings below "credentials" are secret, and in the last
// part for a key or a token as well.
func nameOf(name string) naming {
	parts := strings.Split(name, ".")
	for n := len(parts); n > 1 && strings.Trim(parts[n-1], "0123456789") == ""; n-- {
		parts = parts[:n-1] // an element of a list
	}
	out := plainName
	for i, part := range parts {
		words := wordsOf(part)
		joined := strings.Join(words, "")
		holds := func(list []string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
		}
		switch {
		case slices.ContainsFunc(secretParts, func(s string) bool { return strings.Contains(joined, s) }),
			holds(secretWords) && !slices.Contains([]string{"pwd", "oldpwd"}, joined): // those two are folders
			return secretName
		case i == len(parts)-1 && hasKey(words):
			out = keyName
		}
	}
	return out
}

// hasKey reports whether a key or a token is among the words, other than a token of
// the model's vocabulary.
func hasKey(words []string) bool {
	for i, w := range words {
		switch w {
		case "key", "keys":
			return true
		case "token", "tokens":
			if i == 0 || !slices.Contains(modelWords, words[i-1]) {
				return true
			}
		}
	}
	return false
}

// wordsOf cuts a name where words meet: MY_TOKEN, api-key, APIKey.
func wordsOf(name string) []string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) })
}

var (
	// userinfo reaches to the last @ of an address. Passwords may hold any
	// character, so it is better to hide too much.
	userinfo = regexp.MustCompile(`(?s)://.*@`)
	login    = regexp.MustCompile(`[^\s/@:=,"'(]+:(?:[^\s@/]|/[^\s@/])[^\s@]*@`) // the same without a scheme
	query    = regexp.MustCompile(`(://[^\s?#]*)\?[^\s"']*`)

	bearers = regexp.MustCompile(`(?i)\b(bearer\s+)[^\s"',;]+|\b(basic\s+)[a-z0-9+/=_-]{8,}`)
	tokens  = regexp.MustCompile(`\b(?:sk-[\w-]{8,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|gsk_\w{16,}|nvapi-[\w-]{8,}|npm_\w{16,}|AIza[\w-]{16,}|A[KS]IA[A-Z0-9]{12,}|eyJ[\w-]{6,}\.[\w.-]{6,})`)
	pem     = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*`)

	// assigned is name=value, name: value and "name": "value"; flagged is
	// --name value.
	assigned = regexp.MustCompile(`([A-Za-z][\w.-]*)(["']?\s*[=:]\s*)("(?:\\.|[^"\\])*"|'[^']*'|[^\s,;&"'}]+)`)
	flagged  = regexp.MustCompile(`(--?)([A-Za-z][\w-]*)(\s+)([^\s-]\S*)`)
)

// mask hides what looks like a secret: the user and the query of an address, the
// value after the name of a secret, and keys of the common kinds.
func mask(s string) string {
	s = s[:min(len(s), maxMasked)]
	if strings.Contains(s, "PRIVATE KEY-----") {
		s = pem.ReplaceAllString(s, hidden)
	}
	if strings.Contains(s, "://") {
		s = userinfo.ReplaceAllString(s, "://"+hidden+"@")
		s = query.ReplaceAllString(s, "$1?"+hidden)
	}
	if strings.Contains(s, "@") {
		s = login.ReplaceAllString(s, hidden+"@")
	}
	s = tokens.ReplaceAllString(s, hidden)
	s = bearers.ReplaceAllString(s, "$1$2"+hidden)
	if strings.ContainsAny(s, "=:") {
		s = assigned.ReplaceAllStringFunc(s, func(all string) string {
			m := assigned.FindStringSubmatch(all)
			if strings.HasPrefix(m[3], "//") { // the scheme of an address, done above
				return all
			}
			return m[1] + m[2] + hideWord(m[1], m[3])
		})
	}
	if strings.Contains(s, "-") {
		s = flagged.ReplaceAllStringFunc(s, func(all string) string {
			m := flagged.FindStringSubmatch(all)
			return m[1] + m[2] + m[3] + hideWord(m[2], m[4])
		})
	}
	return s
}

// hideWord hides a value inside a text if the name before it is that of a secret.
func hideWord(name, value string) string {
	switch n := nameOf(name); {
	case n == secretName && !strings.EqualFold(value, "bearer") && !strings.EqualFold(value, "basic"),
		n == keyName && !countOrSwitch(strings.Trim(value, `"'`)):
		return hidden
	}
	return value
}
