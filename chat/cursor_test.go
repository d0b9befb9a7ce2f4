package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzCursor holds the cursor against encoding/json: they agree on what is
// JSON, on what a string says, and on what raw JSON is without its space. Only
// depth is the cursor's own matter.
func FuzzCursor(f *testing.F) {
	for _, in := range []string{
		` {"a":[1,-0.5e+10,true,false,null,"b\u00e9\n"],"c":{}} `, `"\ud83d\ude00\ud83d\ud83d\ude00\ude00"`, "\"\xff\xc3\x28\xe2\x82\"",
		`01`, `-`, `1.`, `.5`, `1e`, `[1,]`, `{"a":1,}`, `{"a"}`, `nul`, `truee`, `"\x"`, `"\u12G4"`, "\"\t\"", `[[[[]]]`, "\ufeff{}", `1 2`, `{"a" : [ ] }`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c := cursor{data: in}
		err := c.skip()
		if err == nil {
			err = c.end()
		}
		if err != nil && strings.Contains(err.Error(), "deeper") {
			return
		}
		require.Equal(t, json.Valid(in), err == nil, "%v", err)

		compact, rawErr := appendRaw(nil, in)
		require.Equal(t, err == nil, rawErr == nil)
		if err != nil {
			return
		}
		var want bytes.Buffer
		require.NoError(t, json.Compact(&want, in))
		require.Equal(t, wholeEscapes(string([]rune(want.String()))), string(compact))
		require.Equal(t, decoded(t, in), decoded(t, compact)) // to which half an escape is U+FFFD as well
		require.True(t, json.Valid(compact))
		require.True(t, utf8.Valid(compact))

		var text string
		c = cursor{data: in}
		if k, _ := c.kind(); k == '"' {
			require.NoError(t, json.Unmarshal(in, &text))
			got, err := c.text()
			require.NoError(t, err)
			require.Equal(t, text, got)

			// And back.
			var again string
			require.NoError(t, json.Unmarshal(appendString(nil, got), &again))
			require.Equal(t, got, again)
		}
	})
}

// FuzzAppendString: what it writes is what encoding/json reads and, HTML
// apart, what it would write.
func FuzzAppendString(f *testing.F) {
	for _, in := range []string{"", "a\"b\\c/\x00\x1f\x7f\n\r\t\b\f", "é😀\u2028\u2029\uFFFD", "\xff\xfe", "a\xe2\x82", "<>&"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var got string
		require.NoError(t, json.Unmarshal(appendString(nil, in), &got))
		// One mark for each broken byte, as a conversion to runes gives it.
		require.Equal(t, string([]rune(in)), got)
	})
}

// Wherever valid JSON is cut, the cursor says that it was cut: a client tells
// a truncated answer from a broken one by it.
func TestCutShortEverywhere(t *testing.T) {
	for _, in := range []string{
		`{"a":"b\u00e9\\","c":[true,false,null,-1.5e+3,{}],"d":{"e":""}}`,
		" [ 1 , \"\xc3\xa9\" , [ ] ] ",
		`"\ud83d\ude00"`,
	} {
		in = strings.TrimRight(in, " ")
		for n := range len(in) {
			c := cursor{data: []byte(in[:n])}
			err := c.skip()
			require.Truef(t, errors.Is(err, io.ErrUnexpectedEOF), "%q: %v", in[:n], err)
		}
		c := cursor{data: []byte(in)}
		require.NoError(t, c.skip())
		require.NoError(t, c.end())
	}
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, `"7"`: 7, `" 7"`: -1, "7.0": 7, "7e0": 7, "70e-1": 7, "1e3": 1000, `"1e3"`: 1000, "7.5": -1, "1e-3": -1,
		"9223372036854775807": 9223372036854775807, "9223372036854775808": -1, "9007199254740992.0": 1 << 53, "1e16": -1, "1e400": -1, "-1e400": -1,
		"null": -1, "true": -1, "{}": -1, "[1]": -1, `""`: -1, `"Inf"`: -1, `"NaN"`: -1, `"x"`: -1,
	} {
		c := cursor{data: []byte(in)}
		n, ok, err := c.integer()
		require.NoError(t, err, in)
		if !ok {
			n = -1
		}
		assert.Equal(t, want, n, in)
		assert.NoError(t, c.end(), in)
	}
}

// decoded returns what encoding/json makes of a value, with numbers as they stand.
func decoded(t *testing.T, in []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}
