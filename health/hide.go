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

// maxMasked bounds what is looked at of a value, of which maxText are kept: no
// password is so long that its address would be cut in it.
const maxMasked = 16 << 10

// hide returns the value of a setting as it may be kept and shown: nothing of it
// if its name is that of a secret, else all but the secrets in it, on one line
// and of bounded length. It is the only way of a value into a fingerprint, and
// what was hidden once stays as it is.
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
	return tidy(mask(value)) // in this order: half an address shows its password
}

// hideAll is hide for settings that come from elsewhere.
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

// countOrSwitch reports whether a value is a number or a switch, such as the
// count of tokens or of heads that share a key.
func countOrSwitch(s string) bool {
	if _, err := strconv.ParseBool(s); err == nil {
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && len(s) <= 12
}

// A naming is what the name of a setting says of its value.
type naming int

const (
	plainName  naming = iota
	keyName           // a secret, unless it is a number
	secretName        // a secret
)

var (
	// secretParts make a name that of a secret wherever they stand in it.
	secretParts = []string{"password", "passwd", "passphrase", "secret", "credential", "apikey", "authtoken", "accesstoken", "authorization", "bearer", "cookie", "privatekey", "accesskey"}

	// secretWords do so as a word of it.
	secretWords = []string{"pass", "pw", "pwd", "pat", "pats", "jwt", "auth", "dsn"}

	// modelWords say of the word token behind them that it is one of the model's.
	modelWords = []string{"bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "special", "added", "think", "next"}
)

// nameOf judges a dotted name by its last part, and by the strong words of those
// before it: what stands below credentials is one.
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

// hasKey reports whether a word among them speaks of a key or a token, unless it
// is a token of the model's language.
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
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) })
}

var (
	// userinfo stands before the last @ of an address: passwords may have
	// anything in them, so that it is better to hide too much.
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

// mask hides the secrets that are known by how they look: of addresses the user
// and the query, what stands behind the name of a secret, and keys of the common
// kinds.
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

// hideWord hides a value inside of a text if the name before it is that of a
// secret.
func hideWord(name, value string) string {
	switch n := nameOf(name); {
	case n == secretName && !strings.EqualFold(value, "bearer") && !strings.EqualFold(value, "basic"),
		n == keyName && !countOrSwitch(strings.Trim(value, `"'`)):
		return hidden
	}
	return value
}
